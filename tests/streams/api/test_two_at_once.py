"""Requests of one packet: what one of them is promised, another one does not get."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from tests.streams.peers import API, client_of, jetstream_server

OVERLAP, TOO_MANY, NO_ROOM, TOO_MANY_CONSUMERS = 10065, 10027, 10047, 10026

LIMITED = """
accounts { A { users [{user: a, password: a}], jetstream { max_file: 1000, max_mem: 1000, max_streams: 3 } } }
no_auth_user: a
"""


async def ask_at_once(client: Client, *requests: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers, in the order of the requests; all of them are written before the first one is read."""
    waiting = [
        client.request(API + subject, json.dumps(body).encode() if body else b"", timeout=30)
        for subject, body in requests
    ]
    return [json.loads(message.data) for message in await asyncio.gather(*waiting)]


def errors(answers: list[dict[str, Any]]) -> list[int]:
    return [answer.get("error", {}).get("err_code", 0) for answer in answers]


def create(name: str, storage: str, *subjects: str, **config: Any) -> tuple[str, dict[str, Any]]:
    return f"STREAM.CREATE.{name}", {
        "name": name,
        "storage": storage,
        "subjects": subjects or [name],
        **config,
    }


def update(name: str, storage: str, *subjects: str, **config: Any) -> tuple[str, dict[str, Any]]:
    return f"STREAM.UPDATE.{name}", create(name, storage, *subjects, **config)[1]


def delete(name: str) -> tuple[str, dict[str, Any]]:
    return f"STREAM.DELETE.{name}", {}


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_a_subject_has_one_owner(tmp_path: Path, storage: str) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await ask_at_once(client, create("A", storage, "a"))
            changed = await ask_at_once(
                client, update("A", storage, "a", "x"), create("B", storage, "x"), create("C", storage, "*")
            )
            assert errors(changed) == [0, OVERLAP, OVERLAP]
            created = await ask_at_once(client, create("D", storage, "d.*"), create("E", storage, "d.e"))
            assert errors(created) == [0, OVERLAP]
            inbox = await client.subscribe("acks")
            await client.publish("x", b"", reply="acks")
            await client.publish("d.e", b"", reply="acks")
            acks = [json.loads((await inbox.next_msg(timeout=30)).data)["stream"] for _ in range(2)]
            assert sorted(acks) == ["A", "D"]
            await client.flush()
            assert inbox.pending_msgs == 0


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_what_a_stream_gives_up_the_next_request_may_have(tmp_path: Path, storage: str) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await ask_at_once(client, create("A", storage, "a", "x"), create("B", storage, "b"))
            answers = await ask_at_once(
                client,
                update("A", storage, "a"),
                create("C", storage, "x"),
                delete("B"),
                create("D", storage, "b"),
                create("B", storage, "b"),
            )
            assert errors(answers) == [0, 0, 0, 0, OVERLAP]


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_an_account_gives_its_room_once(tmp_path: Path, storage: str) -> None:
    too_much = NO_ROOM if storage == "file" else 10028
    with jetstream_server("headrace", tmp_path, LIMITED) as server:
        async with client_of(server) as client:
            created = await ask_at_once(
                client, create("A", storage, max_bytes=600), create("B", storage, max_bytes=600)
            )
            assert errors(created) == [0, too_much]
            grown = await ask_at_once(
                client,
                update("A", storage, max_bytes=900),
                create("B", storage, max_bytes=200),
                create("C", storage, max_bytes=100),
            )
            assert errors(grown) == [0, too_much, 0]
            answers = await ask_at_once(
                client, delete("A"), *(create(name, storage, max_bytes=1) for name in "DEF")
            )
            assert errors(answers) == [0, 0, 0, TOO_MANY]


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_a_stream_has_no_more_consumers_than_it_may(tmp_path: Path, storage: str) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await ask_at_once(client, create("A", storage, max_consumers=2))
            consumers = [
                (f"CONSUMER.CREATE.A.{name}", {"stream_name": "A", "config": {"durable_name": name}})
                for name in ("one", "two", "three", "one")
            ]
            answers = await ask_at_once(client, *consumers)
            assert errors(answers) == [0, 0, TOO_MANY_CONSUMERS, 0]
            answers = await ask_at_once(
                client, ("CONSUMER.DELETE.A.one", {}), consumers[2], ("STREAM.INFO.A", {}), delete("A")
            )
            assert errors(answers) == [0, 0, 0, 0]
            assert answers[2]["state"]["consumer_count"] == 2
