"""What a publish may carry: headrace answers each session as nats-server does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.replay import Stage
from tests.interop.session import Session
from tests.interop.show import differences
from tests.streams.ingest.ingest_sessions import SESSIONS


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as running:
        yield running


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_headrace_takes_publishes_like_nats_server(stage: Stage, session: Session) -> None:
    reference, ours = stage.compare(session)
    difference = differences(reference, ours)
    if difference:
        pytest.fail(f"{session.name} is answered differently\n{difference}", pytrace=False)
