"""Every session is answered by headrace as it is by nats-server, and ends the same way."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.interop.ahead import Ahead, playing_ahead, sessions_of
from tests.interop.catalogue import LATER_SESSIONS, SESSIONS, STILL_DIFFERENT, STREAM_SESSIONS
from tests.interop.session import Session
from tests.interop.show import fail_if_different
from tests.servers import running_server


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest) -> Iterator[Ahead]:
    with playing_ahead(sessions_of(request)) as ahead:
        yield ahead


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_headrace_answers_like_nats_server(stage: Ahead, session: Session) -> None:
    fail_if_different(session, *stage.compare(session))


@pytest.mark.parametrize("session", STREAM_SESSIONS, ids=lambda session: session.name)
def test_headrace_streams_are_those_of_nats_server(stage: Ahead, session: Session) -> None:
    reference, ours = stage.compare(session)
    if session.name in STILL_DIFFERENT and "HEADRACE_SERVER" not in os.environ:
        assert reference != ours, f"{session.name} is no longer different: take it off the list"
    else:
        fail_if_different(session, reference, ours)


@pytest.mark.skipif("HEADRACE_SERVER" in os.environ, reason="about headrace itself")
@pytest.mark.parametrize("settings", sorted({session.settings for session in LATER_SESSIONS}))
def test_what_is_left_for_later_is_refused_and_not_ignored(settings: str) -> None:
    """A server that ignored permissions would be worse than none. Once this fails, its sessions can move."""
    with pytest.raises(RuntimeError, match="does not support"), running_server("headrace", settings):
        pass
