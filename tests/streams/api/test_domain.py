"""A server with a domain: its API has two names, and its answers say where they come from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client

from tests.streams.peers import Peers, client_of, jetstream_server, normalise

CONFIG = "jetstream { domain: hub }"


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[Peers]:
    real, ours = tmp_path / "real", tmp_path / "ours"
    with (
        jetstream_server("nats-server", real, CONFIG) as real_server,
        jetstream_server("headrace", ours, CONFIG) as our_server,
    ):
        async with client_of(real_server) as real_client, client_of(our_server) as our_client:
            yield Peers(real_client, our_client)


async def ask_both(peers: Peers, subject: str, body: dict[str, Any] | None = None) -> Any:
    payload = json.dumps(body).encode() if body is not None else b""
    answers = []
    for client in (peers.real, peers.ours):
        answer = await client.request(subject, payload, timeout=30)
        answers.append(normalise(json.loads(answer.data)))
    assert answers[0] == answers[1]
    return answers[0]


async def test_the_api_answers_under_both_names(peers: Peers) -> None:
    for prefix, name in (("$JS.API", "A"), ("$JS.hub.API", "B")):
        await ask_both(peers, f"{prefix}.INFO")
        await ask_both(peers, f"{prefix}.STREAM.CREATE.{name}", {"name": name})
        await ask_both(peers, f"{prefix}.STREAM.INFO.{name}")
        await ask_both(peers, f"{prefix}.STREAM.UPDATE.{name}", {"name": name, "max_msgs": 9})
        await ask_both(peers, f"{prefix}.STREAM.LIST")
        assert (await ask_both(peers, name))["domain"] == "hub"
        await ask_both(peers, f"{prefix}.STREAM.MSG.GET.{name}", {"seq": 1})
        await ask_both(peers, f"{prefix}.STREAM.DELETE.{name}")


async def test_messages_come_from_consumers_and_direct_gets_of_the_domain(peers: Peers) -> None:
    await ask_both(peers, "$JS.API.STREAM.CREATE.A", {"name": "A", "allow_direct": True})
    for client in (peers.real, peers.ours):
        jetstream = client.jetstream(domain="hub")
        await jetstream.publish("A", b"one")
        subscription = await jetstream.pull_subscribe("A", durable="reader")
        (message,) = await subscription.fetch(1, timeout=30)
        assert message.data == b"one"
        await message.ack_sync()
        direct = await jetstream.get_last_msg("A", "A", direct=True)
        assert direct.data == b"one"


async def test_nobody_responds_for_another_domain(peers: Peers) -> None:
    for client in (peers.real, peers.ours):
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request("$JS.other.API.INFO", b"", timeout=30)
        await _expect_no_responders(client, "$JS.hub.API.CONSUMER.MSG.NEXT.A.none")


async def _expect_no_responders(client: Client, subject: str) -> None:
    with pytest.raises(nats.errors.NoRespondersError):
        await asyncio.wait_for(client.request(subject, b"", timeout=30), 31)
