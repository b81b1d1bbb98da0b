"""What publishes have left behind is known again after the server was killed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from tests.streams.peers import ask, client_of, jetstream_server

SECOND = 1_000_000_000
PATIENCE_SECONDS = 60.0


async def publish(client: Client, subject: str, payload: bytes = b"", **headers: str) -> Any:
    """The acknowledgement; `Nats_Msg_Id="x"` is the header Nats-Msg-Id."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await client.request(subject, payload, timeout=30, headers=named or None)
    return json.loads(answer.data)


async def wait_for(client: Client, stream: str, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The state of the stream, once it is as wanted."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while True:
        state: dict[str, Any] = (await ask(client, f"STREAM.INFO.{stream}", {"subjects_filter": ">"}))[
            "state"
        ]
        if is_so(state):
            return state
        assert asyncio.get_running_loop().time() < deadline, state
        await asyncio.sleep(0.05)


async def test_message_ids_are_remembered(tmp_path: Path) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await ask(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
            await publish(client, "s", Nats_Msg_Id="one")
            await publish(client, "s", Nats_Msg_Id="two")
            server.process.kill()
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            again = await publish(client, "s", Nats_Msg_Id="one")
            assert again == {"stream": "S", "seq": 1, "duplicate": True}
            wrong = await publish(client, "s", Nats_Expected_Last_Msg_Id="one")
            assert wrong["error"]["description"] == "wrong last msg ID: two"
            right = await publish(client, "s", Nats_Expected_Last_Msg_Id="two")
            assert right["seq"] == 3


async def test_lifetimes_go_on(tmp_path: Path) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            config = {"subjects": ["s.*"], "allow_msg_ttl": True, "subject_delete_marker_ttl": SECOND}
            await ask(client, "STREAM.CREATE.S", {"name": "S", **config})
            await publish(client, "s.short", Nats_TTL="1s")
            await publish(client, "s.long", Nats_TTL="1h")
            server.process.kill()
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            state = await wait_for(client, "S", lambda state: state["messages"] == 1)
            assert state["subjects"] == {"s.long": 1}
            assert state["last_seq"] == 3, "the short one left a marker, which is gone, too"


async def test_schedules_go_on(tmp_path: Path) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            config = {"subjects": ["s.*"], "allow_msg_schedules": True, "allow_rollup_hdrs": True}
            await ask(client, "STREAM.CREATE.S", {"name": "S", **config})
            await publish(
                client, "s.every", b"tick", Nats_Schedule="@every 1s", Nats_Schedule_Target="s.tick"
            )
            await publish(client, "s.not", Nats_Schedule="@every 2s", Nats_Schedule_Target="s.never")
            await publish(client, "s.end", Nats_Scheduler="s.not", Nats_Schedule_Next="purge")
            server.process.kill()
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            state = await wait_for(client, "S", lambda state: state["subjects"].get("s.tick", 0) >= 3)
            assert "s.never" not in state["subjects"]
            message = await ask(client, "STREAM.MSG.GET.S", {"last_by_subj": "s.every"})
            assert message["message"]["seq"] == 1


async def test_mirrors_and_sources_go_on_where_they_were(tmp_path: Path) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await ask(client, "STREAM.CREATE.O", {"name": "O", "subjects": ["o.*"]})
            await ask(client, "STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}})
            await ask(client, "STREAM.CREATE.S", {"name": "S", "sources": [{"name": "O"}]})
            for number in range(10):
                await publish(client, f"o.{number}")
            await wait_for(client, "M", lambda state: state["messages"] == 10)
            await wait_for(client, "S", lambda state: state["messages"] == 10)
            server.process.kill()
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await publish(client, "o.x")
            for stream in ("M", "S"):
                state = await wait_for(client, stream, lambda state: state["messages"] >= 11)
                assert (state["messages"], state["last_seq"]) == (11, 11)
                assert set(state["subjects"].values()) == {1}


async def test_a_source_that_was_consumed_is_not_read_again(tmp_path: Path) -> None:
    """The messages that said where they came from are gone."""
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await ask(client, "STREAM.CREATE.O", {"name": "O", "subjects": ["o"]})
            await ask(client, "STREAM.CREATE.S", {"name": "S", "sources": [{"name": "O"}]})
            for _ in range(5):
                await publish(client, "o")
            await wait_for(client, "S", lambda state: state["messages"] == 5)
            await ask(client, "STREAM.PURGE.S")
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await publish(client, "o", b"new")
            state = await wait_for(client, "S", lambda state: state["messages"] > 0)
            assert (state["messages"], state["last_seq"]) == (1, 6)


async def test_a_batch_that_was_not_committed_is_gone(tmp_path: Path) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await ask(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "allow_atomic": True})
            for number in ("1", "2"):
                await client.request(
                    "s", headers={"Nats-Batch-Id": "b", "Nats-Batch-Sequence": number}, timeout=30
                )
            server.process.kill()
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            state = await wait_for(client, "S", lambda state: True)
            assert state["last_seq"] == 0
            headers = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": "3", "Nats_Batch_Commit": "1"}
            refused = await publish(client, "s", **headers)
            assert refused["error"]["err_code"] == 10176
