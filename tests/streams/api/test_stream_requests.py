"""Requests about streams: what is answered, and with what."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.streams.slices import SLICE_SECONDS
from tests.streams.embedded import embedded_server
from tests.streams.peers import Body, Peers, ask

REQUESTS: list[tuple[str, Body]] = [
    ("INFO", ""),
    ("INFO", "any text"),
    ("STREAM.INFO.none", ""),
    ("STREAM.INFO.A", {"unknown": 1}),
    ("STREAM.INFO.A", "any text"),
    ("STREAM.NAMES", {"unknown": 1}),
    ("STREAM.NAMES", "any text"),
    ("STREAM.NAMES", {"offset": -1}),
    ("STREAM.NAMES", {"offset": 100}),
    ("STREAM.NAMES", {"subject": "a.x"}),
    ("STREAM.NAMES", {"subject": "none"}),
    ("STREAM.NAMES", {"subject": ">"}),
    ("STREAM.LIST", {"unknown": 1}),
    ("STREAM.LIST", {"offset": 100}),
    ("STREAM.LIST", {"subject": "none"}),
    ("STREAM.LIST", ""),
    ("STREAM.PURGE.A", {"unknown": 1}),
    ("STREAM.PURGE.A", "any text"),
    ("STREAM.PURGE.A", {"seq": 1, "keep": 1}),
    ("STREAM.PURGE.none", ""),
    ("STREAM.DELETE.A", "any text"),
    ("STREAM.DELETE.A", {"a": 1}),
    ("STREAM.DELETE.none", ""),
    ("STREAM.UPDATE.none", {"name": "none"}),
    ("STREAM.UPDATE.A", {"name": "B"}),
    ("STREAM.CREATE.A", {"name": "B"}),
    ("STREAM.CREATE.A", ""),
    ("STREAM.CREATE.C", {"name": "C", "subjects": ["c..x", "c"]}),
    ("STREAM.CREATE.C", {"name": "C", "subjects": ["c", "c..x"]}),
    ("STREAM.MSG.GET.A", ""),
    ("STREAM.MSG.GET.A", {"seq": 1}),
    ("STREAM.MSG.GET.none", {"seq": 1}),
    ("STREAM.MSG.DELETE.A", ""),
    ("STREAM.MSG.DELETE.A", {"seq": 9}),
    ("STREAM.MSG.DELETE.A", {"seq": 0}),
    ("STREAM.MSG.DELETE.none", {"seq": 9}),
    ("STREAM.RESTORE.A", {}),
    ("STREAM.SNAPSHOT.A", {}),
    ("STREAM.SNAPSHOT.none", {"deliver_subject": "x"}),
    ("STREAM.LEADER.STEPDOWN.A", ""),
    ("STREAM.PEER.REMOVE.A", ""),
    ("CONSUMER.LEADER.STEPDOWN.A.b", ""),
]


@pytest.mark.parametrize(("subject", "body"), REQUESTS, ids=lambda value: str(value)[:40])
async def test_a_request_is_answered_as_by_nats_server(peers: Peers, subject: str, body: Body) -> None:
    await peers.ask("STREAM.CREATE.A", {"name": "A", "subjects": ["a.*"]})
    await peers.ask("STREAM.CREATE.B", {"name": "B", "subjects": ["b.*"]})
    await peers.ask(subject, body)


BROKEN = [
    '{"name":',
    '{"name":x',
    '{"name":"A"}}',
    '{"name":"A"} {"max_msgs":7}',
    '{"NAME":"A"}',
    "[" * 20_000,
    "[1]",
    "null",
    "1",
    '"x"',
    '{"name":"A",}',
    '{"a" 1}',
    '{"a":tru}',
    r'{"a":"\x"}',
    r'{"a":"\u12g4"}',
    '{"a":"\n"}',
    '{"a":1.}',
    '{"name":"A","max_msgs":"x"}',
    '{"name":"A","max_msgs":1.5}',
    '{"name":"A","max_msgs":99999999999999999999}',
    '{"name":"A","retention":"x"}',
    '{"name":"A","retention":null}',
    '{"name":"A","subjects":"x"}',
    '{"name":"A","subjects":[1]}',
    '{"name":"A","metadata":{"a":1}}',
    '{"name":"A","mirror":"x"}',
    '{"name":"A","mirror":{"opt_start_seq":-1}}',
    '{"name":"A","mirror":{"opt_start_time":"x"}}',
    '{"name":"A","mirror":{"opt_start_time":"2024-13-01T00:00:00Z"}}',
    '{"name":"A","sources":[{"external":{"api":1}}]}',
    '{"name":"A","consumer_limits":{"max_ack_pending":"s"}}',
    '{"name":"A","compression":1}',
    '{"unknown":1,"retention":"x"}',
    '{"max_msgs":"1","unknown":1}',
    "{é",
]


@pytest.mark.parametrize("body", BROKEN, ids=lambda body: body[:40])
async def test_a_broken_request_is_refused_in_the_words_of_nats_server(peers: Peers, body: str) -> None:
    await peers.ask("STREAM.CREATE.A", body)


async def test_a_client_may_ask_for_a_newer_api(peers: Peers) -> None:
    refused = await peers.ask("INFO", headers={"Nats-Required-Api-Level": "99"})
    assert refused["error"]["err_code"] == 10185
    assert "error" not in await peers.ask("INFO", headers={"Nats-Required-Api-Level": "5"})
    assert "error" in await peers.ask("STREAM.INFO.A", headers={"Nats-Required-Api-Level": "x"})


async def test_long_lists_come_in_pages(peers: Peers) -> None:
    for number in range(300):
        await peers.ask(f"STREAM.CREATE.S{number:03}", {"name": f"S{number:03}", "storage": "memory"})
    first = await peers.ask("STREAM.LIST")
    assert (first["total"], first["limit"], len(first["streams"])) == (300, 256, 256)
    second = await peers.ask("STREAM.LIST", {"offset": 256})
    assert [stream["config"]["name"] for stream in second["streams"]][-1] == "S299"
    assert len((await peers.ask("STREAM.NAMES"))["streams"]) == 300


async def publish_some(peers: Peers, count: int) -> None:
    for number in range(count):
        headers = {"key": str(number)} if number % 2 else None
        await peers.publish(f"m.{number % 3}", f"payload {number}", headers)


@pytest.fixture(params=["file", "memory"])
async def filled(request: pytest.FixtureRequest, peers: Peers) -> Peers:
    """A stream M with ten messages on three subjects."""
    config: dict[str, Any] = {"name": "M", "subjects": ["m.>"], "storage": request.param}
    await peers.ask("STREAM.CREATE.M", {**config, "allow_direct": True})
    await publish_some(peers, 10)
    return peers


async def test_the_state_counts_messages_bytes_and_subjects(filled: Peers) -> None:
    state = (await filled.ask("STREAM.INFO.M"))["state"]
    assert (state["messages"], state["last_seq"], state["num_subjects"]) == (10, 10, 3)
    for body in (
        {"subjects_filter": "m.1"},
        {"subjects_filter": ">", "offset": 1},
        {"subjects_filter": ">", "offset": 9},
        {"subjects_filter": "none", "offset": 1},
        {"subjects_filter": "m.*", "offset": -1},
    ):
        await filled.ask("STREAM.INFO.M", body)
    await filled.ask("INFO")


async def test_deleted_messages_leave_holes(filled: Peers) -> None:
    for request in (
        {"seq": 3},
        {"seq": 3},
        {"seq": 5, "no_erase": True},
        {"seq": 10},
        {"seq": 1},
        {"seq": 77},
    ):
        await filled.ask("STREAM.MSG.DELETE.M", request)
        await filled.ask("STREAM.INFO.M", {"deleted_details": True})
    assert (await filled.ask("STREAM.INFO.M", {"deleted_details": True}))["state"]["num_deleted"] == 3


PURGES: list[dict[str, Any]] = [
    {},
    {"keep": 5},
    {"keep": 50},
    {"seq": 6},
    {"seq": 1},
    {"seq": 20},
    {"filter": ">"},
    {"filter": "m.1"},
    {"filter": "m.1", "keep": 1},
    {"filter": "m.2", "seq": 5},
    {"filter": "none"},
]


@pytest.mark.parametrize("request_body", PURGES, ids=str)
async def test_a_purge_removes_what_nats_server_removes(filled: Peers, request_body: dict[str, Any]) -> None:
    await filled.ask("STREAM.PURGE.M", request_body)
    await filled.ask("STREAM.INFO.M", {"deleted_details": True, "subjects_filter": ">"})
    await filled.publish("m.1", "after")
    await filled.ask("STREAM.INFO.M")


async def test_sealed_and_denying_streams_keep_their_messages(peers: Peers) -> None:
    await peers.ask("STREAM.CREATE.A", {"name": "A", "deny_delete": True, "deny_purge": True})
    await peers.publish("A", "one")
    await peers.ask("STREAM.MSG.DELETE.A", {"seq": 1})
    await peers.ask("STREAM.PURGE.A")
    await peers.ask("STREAM.CREATE.B", {"name": "B"})
    await peers.publish("B", "one")
    await peers.ask("STREAM.UPDATE.B", {"name": "B", "sealed": True})
    await peers.ask("STREAM.MSG.DELETE.B", {"seq": 1})
    await peers.ask("STREAM.PURGE.B")
    assert (await peers.ask("STREAM.INFO.B"))["state"]["messages"] == 1


async def test_a_narrower_limit_holds_at_once(filled: Peers) -> None:
    config = (await filled.ask("STREAM.INFO.M"))["config"]
    for change in ({"max_msgs_per_subject": 2}, {"max_msgs": 3}, {"max_bytes": 100}):
        await filled.ask("STREAM.UPDATE.M", {**config, **change})
        await filled.ask("STREAM.INFO.M")


async def test_the_details_of_a_small_stream_are_of_one_moment(tmp_path: Path) -> None:
    """Clients compare them: a response once had no messages in total, but three on one subject."""
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await ask(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"]})
        for number in range(200):
            await client.request(f"s.{number % 3}", b"x")
        jetstream = server.server.jetstream
        assert jetstream is not None
        (account,) = jetstream.accounts.values()
        log = account.streams["S"].log
        left, enough = iter(range(2, 201)), asyncio.Event()

        def remove_one_and_take_the_whole_turn() -> bool:
            log.remove(next(left))
            time.sleep(SLICE_SECONDS)
            return enough.is_set()

        details = {"subjects_filter": ">", "deleted_details": True}
        requests = [asyncio.ensure_future(ask(client, "STREAM.INFO.S", details)) for _ in range(20)]
        jetstream.slices.add(remove_one_and_take_the_whole_turn)
        states = [(await request)["state"] for request in requests]
        enough.set()
        await client.close()
        assert len({state["messages"] for state in states}) > 1
        for state in states:
            assert sum(state["subjects"].values()) == state["messages"]
            deleted = [seq for seq in state.get("deleted") or () if seq > state["first_seq"]]
            assert len(deleted) == state["last_seq"] - state["first_seq"] + 1 - state["messages"]
