"""Mirrors and sources end up with what nats-server's do: messages, sequences, headers, infos."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from typing import Any

import pytest
from nats.aio.client import Client

from tests.streams.peers import Peers, ask

PATIENCE_SECONDS = 60.0
_IDENTITY = re.compile(rb"(Nats-Stream-Source: (?:\S+ ){5})\S+")


async def settled(client: Client, stream: str, last_seq: int) -> dict[str, Any]:
    """The info of a stream that has come so far."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while True:
        info: dict[str, Any] = await ask(client, f"STREAM.INFO.{stream}")
        if info["state"]["last_seq"] >= last_seq:
            return info
        assert asyncio.get_running_loop().time() < deadline, info
        await asyncio.sleep(0.05)


async def contents(client: Client, stream: str) -> list[Any]:
    """All messages: subject, headers without the identity of their origin, payload."""
    state = (await ask(client, f"STREAM.INFO.{stream}"))["state"]
    found: list[Any] = []
    for seq in range(state["first_seq"], state["last_seq"] + 1):
        answer = await ask(client, f"STREAM.MSG.GET.{stream}", {"seq": seq})
        message = answer.get("message")
        if message is None:
            found.append(answer["error"]["description"])
            continue
        block = _IDENTITY.sub(rb"\1IDENTITY", base64.b64decode(message.get("hdrs", "")))
        found.append((message["seq"], message["subject"], block, message.get("data")))
    return found


async def compare(peers: Peers, stream: str, last_seq: int) -> dict[str, Any]:
    """Both servers have the same there, and say the same of it."""
    infos = []
    messages = []
    for client in (peers.real, peers.ours):
        info = await settled(client, stream, last_seq)
        await asyncio.sleep(0.05)  # what is stored is on disk
        sources = info.get("sources") or []
        sources.sort(key=lambda source: source["name"])  # nats-server lists them in a random order
        for origin in [info.get("mirror"), *sources]:
            if origin and origin["active"] >= 0:
                origin["active"] = "recently"
        infos.append({key: info.get(key) for key in ("state", "mirror", "sources")})
        messages.append(await contents(client, stream))
    assert infos[1] == infos[0]
    assert messages[1] == messages[0]
    return infos[0]


async def fill(peers: Peers) -> None:
    """A stream O with the messages 1 to 5, of which 3 is deleted."""
    await peers.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"]})
    for number in range(5):
        headers = {"X": str(number), "Nats-Expected-Stream": "O"} if number % 2 else None
        await peers.publish(f"o.{number % 2}", str(number), headers)
    await peers.ask("STREAM.MSG.DELETE.O", {"seq": 3})


@pytest.mark.parametrize(
    ("origin", "last_seq"),
    [
        ({}, 5),
        ({"filter_subject": "o.1"}, 4),
        ({"opt_start_seq": 4}, 5),
        ({"opt_start_time": "2001-01-01T00:00:00Z"}, 5),
        ({"subject_transforms": [{"src": "o.0", "dest": "zero"}, {"src": "o.1", "dest": "one"}]}, 5),
    ],
)
async def test_mirrors(peers: Peers, origin: dict[str, Any], last_seq: int) -> None:
    await fill(peers)
    await peers.ask("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O", **origin}})
    await compare(peers, "M", last_seq)


@pytest.mark.parametrize(
    ("origin", "last_seq"),
    [
        ({}, 4),
        ({"filter_subject": "o.1"}, 2),
        ({"opt_start_seq": 4}, 2),
        ({"subject_transforms": [{"src": "o.*", "dest": "new.$1"}]}, 4),
    ],
)
async def test_sources(peers: Peers, origin: dict[str, Any], last_seq: int) -> None:
    await fill(peers)
    await peers.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "sources": [{"name": "O", **origin}]})
    await compare(peers, "S", last_seq)
    await peers.publish("s", "own")
    await compare(peers, "S", last_seq + 1)


async def test_a_source_of_a_source_names_the_nearest(peers: Peers) -> None:
    await fill(peers)
    await peers.ask("STREAM.CREATE.A", {"name": "A", "sources": [{"name": "O"}]})
    await peers.ask("STREAM.CREATE.B", {"name": "B", "sources": [{"name": "A"}]})
    await compare(peers, "B", 4)


async def test_a_mirror_follows_a_purge(peers: Peers) -> None:
    await fill(peers)
    await peers.ask("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}})
    await compare(peers, "M", 5)
    await peers.ask("STREAM.PURGE.O")
    await peers.publish("o.9", "after")
    await compare(peers, "M", 6)
    await peers.ask("STREAM.CREATE.N", {"name": "N", "mirror": {"name": "O"}})
    await compare(peers, "N", 6)


async def test_a_mirror_that_was_purged_beyond_its_end_continues_behind_that(peers: Peers) -> None:
    await fill(peers)
    await peers.ask("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}})
    await compare(peers, "M", 5)
    await peers.ask("STREAM.PURGE.M", {"seq": 8})
    for number in range(6, 11):
        await peers.publish("o.2", str(number))
    await compare(peers, "M", 10)
    state = (await ask(peers.ours, "STREAM.INFO.M"))["state"]
    assert (state["first_seq"], state["messages"]) == (8, 3)


async def test_an_origin_that_is_missing_is_reported(peers: Peers) -> None:
    infos = []
    for client in (peers.real, peers.ours):
        await ask(client, "STREAM.CREATE.M", {"name": "M", "mirror": {"name": "LATER"}})
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        info: dict[str, Any] = {}
        while "error" not in info:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.05)
            info = json.loads((await client.request("$JS.API.STREAM.INFO.M", timeout=30)).data)["mirror"]
        infos.append(info)
    assert infos[1] == infos[0]
    await ask(peers.ours, "STREAM.CREATE.LATER", {"name": "LATER"})
    await peers.ours.request("LATER", b"there", timeout=30)
    await settled(peers.ours, "M", 1)  # nats-server looks again after ten seconds and more
    await ask(peers.ours, "STREAM.DELETE.LATER")


async def test_an_origin_elsewhere_is_never_heard_of(peers: Peers) -> None:
    external = {"api": "$JS.other.API", "deliver": "x"}
    await peers.ask("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O", "external": external}})
    await compare(peers, "M", 0)


async def test_counters_of_several_streams_add_up(peers: Peers) -> None:
    for name in ("A", "B"):
        config = {"name": name, "subjects": [f"{name}.>"], "allow_msg_counter": True}
        await peers.ask(f"STREAM.CREATE.{name}", config)
    sources = [
        {"name": name, "subject_transforms": [{"src": f"{name}.>", "dest": "t.>"}]} for name in ("A", "B")
    ]
    config = {"name": "T", "subjects": ["t.>"], "allow_msg_counter": True, "sources": sources}
    await peers.ask("STREAM.CREATE.T", config)
    for number, subject in enumerate(("A.x", "B.x", "A.x", "t.x"), 1):
        for client in (peers.real, peers.ours):
            await client.request(subject, headers={"Nats-Incr": str(number)}, timeout=30)
            await settled(client, "T", number)
    await compare(peers, "T", 4)


async def test_a_work_queue_lets_go_what_was_taken(peers: Peers) -> None:
    await peers.ask("STREAM.CREATE.W", {"name": "W", "retention": "workqueue"})
    await peers.ask("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "W"}]})
    for client in (peers.real, peers.ours):
        for _ in range(3):
            await client.request("W", b"work", timeout=30)
        await settled(client, "S", 3)
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while (await ask(client, "STREAM.INFO.W"))["state"]["messages"]:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.05)


async def test_an_origin_that_was_made_again_is_read_from_its_start(peers: Peers) -> None:
    client = peers.ours
    for payload in (b"first", b"second"):
        await ask(client, "STREAM.CREATE.O", {"name": "O"})
        await client.request("O", payload, timeout=30)
        if payload == b"first":
            await ask(client, "STREAM.CREATE.S", {"name": "S", "sources": [{"name": "O"}]})
            await settled(client, "S", 1)
            await ask(client, "STREAM.DELETE.O")
    await settled(client, "S", 2)
    assert [base64.b64decode(message[3]) for message in await contents(client, "S")] == [b"first", b"second"]
    for name in ("O", "S"):
        await ask(client, f"STREAM.DELETE.{name}")
