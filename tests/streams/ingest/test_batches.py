"""Atomic batches that come to nothing: both servers tell the same about them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from tests.servers import ServerKind
from tests.streams.peers import ask, client_of, jetstream_server

LIMITS = """
jetstream { limits { batch { timeout: "3s", max_msgs: 3, max_inflight_per_stream: 2 } } }
"""


async def stage(client: Client, batch_id: str, seq: int, **headers: str) -> Any:
    """The answer to one message of a batch."""
    named = {"Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": str(seq)}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await client.request("s", b"", headers=named, timeout=30)
    return json.loads(answer.data) if answer.data else None


async def play(kind: ServerKind, directory: Path) -> tuple[list[Any], list[Any]]:
    """What the publisher is answered, and the advisories."""
    answers: list[Any] = []
    told: list[Any] = []
    with jetstream_server(kind, directory, LIMITS) as server:
        async with client_of(server) as client:
            subscription = await client.subscribe("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.>")
            await ask(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "allow_atomic": True})
            answers += [await stage(client, "gap", 1), await stage(client, "gap", 3)]
            answers += [await stage(client, "long", seq) for seq in (1, 2, 3, 4)]
            answers += [await stage(client, "longer", 9)]
            answers += [await stage(client, "level", 1, Nats_Required_Api_Level="99")]
            answers += [await stage(client, name, 1) for name in ("silent", "too", "many")]
            for _ in range(5):
                message = await subscription.next_msg(timeout=30)
                body = json.loads(message.data)
                told.append({**body, "id": bool(body["id"]), "timestamp": bool(body["timestamp"])})
            answers += [await stage(client, "silent", 2)]
            answers += [(await ask(client, "STREAM.INFO.S"))["state"]]
    return answers, sorted(told, key=lambda body: (body["reason"], body["batch"]))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("batches")


async def test_abandoned_batches_are_told_of(directory: Path) -> None:
    (real_answers, real_told), (our_answers, our_told) = await asyncio.gather(
        play("nats-server", directory / "real"), play("headrace", directory / "ours")
    )
    assert our_answers == real_answers
    assert our_told == real_told
    assert [body["reason"] for body in our_told] == [
        "incomplete",
        "large",
        "timeout",
        "timeout",
        "unsupported",
    ]


@pytest.mark.parametrize("storage", ["file", "memory"])
async def test_a_batch_for_which_there_are_too_few_sequences_leaves_nothing(
    tmp_path: Path, storage: str
) -> None:
    """The third message cannot be appended: the two before it are removed, and their ids forgotten."""
    config = {
        "name": "S",
        "subjects": ["s"],
        "allow_atomic": True,
        "first_seq": 2**64 - 3,
        "storage": storage,
    }
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            assert "error" not in await ask(client, "STREAM.CREATE.S", config)
            for seq in (1, 2):
                assert await stage(client, "b", seq, Nats_Msg_Id=str(seq)) is None
            answer = await stage(client, "b", 3, Nats_Batch_Commit="1")
            assert answer["error"]["description"] == "all sequences are used"
            assert (await ask(client, "STREAM.INFO.S"))["state"]["messages"] == 0
            again = await stage(client, "c", 1, Nats_Msg_Id="1", Nats_Batch_Commit="1")
            assert again["error"]["description"] == "all sequences are used", "not a duplicate"
