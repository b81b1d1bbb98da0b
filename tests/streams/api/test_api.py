"""What holds for every request: order, limits, advisories, and subjects that nobody answers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats.errors
import pytest

from tests.streams.peers import API, Peers, ask, client_of, jetstream_server, normalise


async def test_requests_about_one_stream_are_handled_in_order(tmp_path: Path) -> None:
    steps = [("CREATE", {"max_msgs": 5}), ("UPDATE", {"max_msgs": 7}), ("INFO", None), ("DELETE", None)]
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            requests = []
            for _ in range(20):
                for action, change in steps:
                    body = "" if change is None else json.dumps({"name": "A", **change})
                    requests.append(client.request(f"{API}STREAM.{action}.A", body.encode(), timeout=30))
            answers = [json.loads(message.data) for message in await asyncio.gather(*requests)]
            assert [answer for answer in answers if "error" in answer] == []
            assert {answer["config"]["max_msgs"] for answer in answers[2::4]} == {7}


async def test_more_requests_than_the_limit_are_refused_not_dropped(tmp_path: Path) -> None:
    config = "jetstream { request_queue_limit: 10 }"
    with jetstream_server("headrace", tmp_path, config) as server:
        async with client_of(server) as client:
            body = json.dumps({"name": "A"}).encode()
            requests = [client.request(f"{API}STREAM.CREATE.A", body, timeout=30) for _ in range(200)]
            answers = [json.loads(message.data) for message in await asyncio.gather(*requests)]
            refused = [answer for answer in answers if "error" in answer]
            assert {answer["error"]["code"] for answer in refused} == {429}
            assert 0 < len(refused) < 200
            assert "error" not in await ask(client, "STREAM.INFO.A")


async def test_a_flood_of_requests_is_answered(tmp_path: Path) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await ask(client, "STREAM.CREATE.A", {"name": "A"})
            requests = [client.request(f"{API}STREAM.INFO.A", b"", timeout=30) for _ in range(3000)]
            answers = await asyncio.gather(*requests)
            assert all(b"stream_info_response" in answer.data for answer in answers)


@pytest.mark.parametrize("subject", ["CONSUMER.MSG.NEXT.A.none", "DIRECT.GET.A", "DIRECT.GET.A.b"])
async def test_nobody_responds_for_what_is_not_there(peers: Peers, subject: str) -> None:
    for client in (peers.real, peers.ours):
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request(API + subject, b"", timeout=30)


@pytest.mark.parametrize("subject", ["STREAM.CREATE", "STREAM.CREATE.A.B", "STREAM.NAMES.x", "STREAM.INFO"])
async def test_unknown_requests_are_not_answered(peers: Peers, subject: str) -> None:
    for client in (peers.real, peers.ours):
        with pytest.raises(nats.errors.TimeoutError):
            await client.request(API + subject, b"", timeout=0.2)


async def test_advisories_tell_of_requests_and_changes(peers: Peers) -> None:
    told: list[dict[str, Any]] = []
    for client in (peers.real, peers.ours):
        subscription = await client.subscribe("$JS.EVENT.ADVISORY.>")
        await ask(client, "STREAM.CREATE.A", {"name": "A"})
        await ask(client, "STREAM.UPDATE.A", {"name": "A", "max_msgs": 5})
        await ask(client, "STREAM.INFO.none")
        await ask(client, "STREAM.DELETE.A")
        found: dict[str, Any] = {}
        while len(found) < 7:
            message = await subscription.next_msg(timeout=30)
            body = normalise(json.loads(message.data))
            if body.get("subject", "").endswith("STREAM.NAMES"):
                continue  # the fixture asked for those before: that may be told late
            found[f"{message.subject} {body.get('subject', '')}"] = _without_ids(body)
        await subscription.unsubscribe()
        told.append(found)
    assert told[0] == told[1]


def _without_ids(body: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in body.items() if key not in ("id", "server")}
    if "client" in kept:
        volatile = ("start", "id", "server", "rtt")
        kept["client"] = {key: value for key, value in kept["client"].items() if key not in volatile}
        kept["response"] = normalise(json.loads(kept["response"]))
    return kept


NO_TEXT = b'{"no_wait":true,"x":"JS\xc1"}'
TOO_DEEP = b'{"x":' + b"[" * 20_000 + b"]" * 20_000 + b"}"


@pytest.mark.parametrize("body", [NO_TEXT, TOO_DEEP], ids=["no UTF-8", "too deep"])
async def test_bodies_that_no_json_reader_likes_are_answered(peers: Peers, body: bytes) -> None:
    """They were internal errors: msgspec has no error of its own for what is no UTF-8, or nested too deep."""
    await peers.ask("STREAM.CREATE.A", {"name": "A"})
    await peers.ask("CONSUMER.CREATE.A.c", {"stream_name": "A", "config": {"durable_name": "c"}})
    for subject in ("CONSUMER.INFO.A.c", "STREAM.INFO.A", "STREAM.NAMES", "CONSUMER.MSG.NEXT.A.c"):
        answers = []
        for client in (peers.real, peers.ours):
            message = await client.request(API + subject, body, timeout=30)
            answers.append((message.headers, b'"error"' in message.data))
            assert b"internal error" not in message.data
        assert answers[0] == answers[1], subject
