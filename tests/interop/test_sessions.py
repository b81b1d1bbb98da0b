"""Every session is answered by headrace as it is by nats-server, and ends the same way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.catalogue import SESSIONS
from tests.interop.replay import Stage
from tests.interop.session import Session
from tests.interop.show import differences


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as running:
        yield running


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_headrace_answers_like_nats_server(stage: Stage, session: Session) -> None:
    reference, ours = stage.compare(session)
    difference = differences(reference, ours)
    if difference:
        pytest.fail(f"{session.name} is answered differently\n{difference}", pytrace=False)
