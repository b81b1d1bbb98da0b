"""Every session about consumers gets the same answers from nats-server and from this server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.servers import Server, running_server
from tests.streams.consumers import sessions_api as consumer_sessions_api
from tests.streams.consumers import sessions_pull as consumer_sessions_pull
from tests.streams.consumers import sessions_push as consumer_sessions_push
from tests.streams.consumers import sessions_start as consumer_sessions_start
from tests.streams.consumers import sessions_time as consumer_sessions_time
from tests.streams.recorder import Session, play

SESSIONS = (
    *consumer_sessions_api.SESSIONS,
    *consumer_sessions_pull.SESSIONS,
    *consumer_sessions_push.SESSIONS,
    *consumer_sessions_start.SESSIONS,
    *consumer_sessions_time.SESSIONS,
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    def flags(name: str) -> list[str]:
        directory: Path = tmp_path_factory.mktemp(name)
        return ["-js", "-sd", str(directory)]

    with ExitStack() as stack:
        reference = stack.enter_context(running_server("nats-server", flags=flags("reference")))
        ours = stack.enter_context(running_server("headrace", flags=flags("ours")))
        yield reference, ours


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.__name__)
async def test_answers_are_those_of_nats_server(servers: tuple[Server, Server], session: Session) -> None:
    reference, ours = servers
    answers, expected = await asyncio.gather(play(ours, session), play(reference, session))
    assert answers == expected


async def test_two_consumers_of_one_subject_both_notice_that_nobody_listens(
    servers: tuple[Server, Server],
) -> None:
    *_, first, second = await play(servers[1], consumer_sessions_time.two_consumers_whose_subscriber_leaves)
    for name, shown in (("A", first), ("B", second)):
        assert f'"name": "{name}"' in shown or f"'name': '{name}'" in shown
        assert "push_bound" not in shown
