"""Which sources and mirrors a stream may have: taken or refused as by nats-server, with the same words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.streams.peers import Peers

ORIGIN = {"name": "O", "subjects": ["o.>"], "storage": "memory", "max_msg_size": 1000, "allow_direct": True}
LOOP = {"name": "L", "subjects": ["l.>"], "storage": "memory", "sources": [{"name": "S"}]}
ELSEWHERE = "$JS.elsewhere.API"


def external(**about: str) -> list[dict[str, Any]]:
    return [{"name": "O", "external": {"api": ELSEWHERE, **about}}]


def consumers(*given: dict[str, str]) -> list[dict[str, Any]]:
    return [{"name": "O", "consumer": consumer} for consumer in given]


CASES: dict[str, list[dict[str, Any]]] = {
    "messages that do not fit": [
        {"sources": [{"name": "O"}], "max_msg_size": 999},
        {"sources": [{"name": "O"}], "max_msg_size": 1000},
        {"mirror": {"name": "O"}, "max_msg_size": 999},
    ],
    "a stream of another server": [
        {"sources": external(deliver="x.*")},
        {"subjects": ["x.>"], "sources": external(deliver="x")},
        {"subjects": [">"], "sources": external(deliver="x")},
        {"sources": external(api="a.*")},
        {"sources": external(api="$JS.API")},
        {"sources": external(api="$JS.>")},
        {"sources": [*external(), *external()]},
    ],
    "a consumer that exists": [
        {"sources": consumers({})},
        {"sources": consumers({"name": "c"})},
        {"sources": consumers({"deliver_subject": "d"})},
        {"sources": consumers({"name": "c.d", "deliver_subject": "d"})},
        {"sources": consumers({"name": "c", "deliver_subject": "d.*"})},
        {"sources": consumers(*2 * [{"name": "c", "deliver_subject": "d"}])},
    ],
    "a filter": [
        {"sources": [{"name": "O", "filter_subject": "a..b"}]},
        {"mirror": {"name": "O", "filter_subject": "a..b"}},
        {"sources": [{"name": "O", "filter_subject": "o.a"}, {"name": "O", "filter_subject": "o.a"}]},
    ],
    "a circle": [
        {"subjects": ["s.>"], "sources": [{"name": "L"}]},
        {"subjects": ["s.>"], "sources": [{"name": "L", "filter_subject": "s.a"}]},
        {"mirror": {"name": "L"}},
        {"subjects": ["s.>"], "sources": [{"name": "S"}]},
    ],
}


@pytest.mark.parametrize("about", CASES)
async def test_a_source_is_taken_or_refused_as_by_nats_server(peers: Peers, about: str) -> None:
    await peers.ask("STREAM.CREATE.O", ORIGIN)
    await peers.ask("STREAM.CREATE.L", LOOP)
    for config in CASES[about]:
        answer = await peers.ask("STREAM.CREATE.S", {"name": "S", "storage": "memory", **config})
        if "error" not in answer:
            await peers.ask("STREAM.DELETE.S")
