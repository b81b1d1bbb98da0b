"""TTLs, max_age and delete markers leave behind what they do in nats-server."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from nats.aio.client import Client

from tests.streams.peers import SECOND, Peers, ask

PATIENCE_SECONDS = 40.0


async def history(client: Client, stream: str, *, until: int) -> list[Any]:
    """What the stream had whenever it changed, until so few messages are left."""
    seen: list[Any] = []
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while True:
        details = {"subjects_filter": ">", "deleted_details": True}
        state = (await ask(client, f"STREAM.INFO.{stream}", details))["state"]
        shown = (state.get("subjects"), state["last_seq"], state.get("deleted"))
        if not seen or seen[-1] != shown:
            seen.append(shown)
        if state["messages"] <= until:
            return seen
        assert asyncio.get_running_loop().time() < deadline, seen
        await asyncio.sleep(0.02)


async def test_messages_live_as_long_as_they_say(peers: Peers) -> None:
    await peers.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"], "allow_msg_ttl": True})
    for subject, ttl in (("s.a", "1s"), ("s.b", "2"), ("s.c", "never"), ("s.d", "")):
        await peers.publish(subject, "x", {"Nats-TTL": ttl} if ttl else None)
    real, ours = await asyncio.gather(*(history(client, "S", until=2) for client in (peers.real, peers.ours)))
    left = [{f"s.{name}": 1 for name in names} for names in ("abcd", "bcd", "cd")]
    for seen in (real, ours):  # one that is not looked at for a second has changed twice meanwhile
        assert seen[-1] == (left[-1], 4, None)
        assert seen == [state for state in ((subjects, 4, None) for subjects in left) if state in seen]


async def test_the_last_message_of_a_subject_leaves_a_marker(peers: Peers) -> None:
    config = {"subjects": ["s.*"], "allow_msg_ttl": True, "subject_delete_marker_ttl": 3 * SECOND}
    await peers.ask(
        "STREAM.CREATE.S", {"name": "S", **config, "max_age": 3 * SECOND, "duplicate_window": SECOND}
    )
    await peers.publish("s.a", "1")
    await peers.publish("s.a", "2")
    await peers.publish("s.never", "3", {"Nats-TTL": "never"})
    await peers.publish("s.purged", "4", {"KV-Operation": "PURGE"})

    async def marker(client: Client) -> tuple[bytes, Any]:
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            answer = await ask(client, "STREAM.MSG.GET.S", {"seq": 5})
            if "message" in answer:
                message = answer["message"]
                return base64.b64decode(message["hdrs"]), (message["subject"], message.get("data"))
            await asyncio.sleep(0.02)
        raise AssertionError("no marker came")

    real, ours = await asyncio.gather(marker(peers.real), marker(peers.ours))
    assert ours == real
    assert b"Nats-Marker-Reason: MaxAge\r\n" in real[0]
    real_end, our_end = await asyncio.gather(
        *(history(client, "S", until=1) for client in (peers.real, peers.ours))
    )
    assert our_end[-1] == real_end[-1]


async def test_plain_messages_age(peers: Peers) -> None:
    config = {"subjects": ["s"], "max_age": SECOND, "duplicate_window": SECOND}
    await peers.ask("STREAM.CREATE.S", {"name": "S", **config})
    for _ in range(3):
        await peers.publish("s", "x")
    real, ours = await asyncio.gather(*(history(client, "S", until=0) for client in (peers.real, peers.ours)))
    assert ours[-1] == real[-1]


async def test_a_mirror_without_ttls_keeps_what_never_expires(peers: Peers) -> None:
    age = {"max_age": SECOND, "duplicate_window": SECOND // 10}
    await peers.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"], "allow_msg_ttl": True})
    await peers.ask("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S"}, **age})
    await peers.publish("s.never", "x", {"Nats-TTL": "never"})
    await peers.publish("s.long", "x", {"Nats-TTL": "1000"})
    await peers.publish("s.plain", "x")
    for client in (peers.real, peers.ours):
        while (await ask(client, "STREAM.INFO.M"))["state"]["last_seq"] < 3:
            await asyncio.sleep(0.02)
    real, ours = await asyncio.gather(*(history(client, "M", until=1) for client in (peers.real, peers.ours)))
    assert ours[-1] == real[-1] == ({"s.never": 1}, 3, [2, 3])
