"""What a publish may carry: headrace answers each session as nats-server does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.ahead import Ahead, playing_ahead, sessions_of
from tests.interop.session import Session
from tests.interop.show import fail_if_different
from tests.streams.ingest import sessions_batches, sessions_publish, sessions_schedules

SESSIONS = [*sessions_publish.SESSIONS, *sessions_batches.SESSIONS, *sessions_schedules.SESSIONS]


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest) -> Iterator[Ahead]:
    with playing_ahead(sessions_of(request)) as ahead:
        yield ahead


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_headrace_takes_publishes_like_nats_server(stage: Ahead, session: Session) -> None:
    fail_if_different(session, *stage.compare(session))
