"""The whole JetStream API at its edges (see edges.py): answered, and as nats-server answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.ahead import Ahead, playing_ahead, sessions_of
from tests.interop.edges import all_sessions
from tests.interop.replay import Transcript
from tests.interop.session import Session
from tests.interop.show import fail_if_different

EVERY = all_sessions()
SAMPLE = [
    session
    for session in EVERY
    if session.name.endswith(("reading", "publishes", "consumer_requests"))
    or session.name in ("js_edges_memory_no_tail_changes", "js_edges_memory_holes_consumers")
    or session.name in ("js_edges_memory_stream_configs", "js_edges_consumer_configs")
]
REST = [session for session in EVERY if session.name not in {other.name for other in SAMPLE}]


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest) -> Iterator[Ahead]:
    with playing_ahead(sessions_of(request)) as ahead:
        yield ahead


def silent_steps(transcript: Transcript) -> list[bytes]:
    """What was asked for and not answered."""
    return [
        scene.step.data
        for scene in transcript
        if scene.step.action == "expect" and not any(answer.received for answer in scene.answers)
    ]


def check(stage: Ahead, session: Session) -> None:
    reference, ours = stage.compare(session)
    assert silent_steps(ours) == []
    fail_if_different(session, reference, ours)


@pytest.mark.parametrize("session", SAMPLE, ids=lambda session: session.name)
def test_every_request_is_answered_like_nats_server(stage: Ahead, session: Session) -> None:
    check(stage, session)


@pytest.mark.long
@pytest.mark.parametrize("session", REST, ids=lambda session: session.name)
def test_every_other_request_is_too(stage: Ahead, session: Session) -> None:
    check(stage, session)
