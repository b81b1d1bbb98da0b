"""Random messages in random streams: in the end nats-server and ours have kept what the model keeps.

Time is real here, so nothing is said about when. What is due at different times is seconds apart, and a
stream that could not be filled before its first message was due is filled again, under another name.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from tests.streams.expiry_model import NEVER, ExpiryModel
from tests.streams.peers import SECOND, ask, client_of, jetstream_server

TTL, AGE, MARKER = 1, 4, 1
LONG = 1000
FILL_SECONDS = 0.8
PATIENCE_SECONDS = 40.0
STREAMS = 25

_numbers = itertools.count(1)


@dataclass
class History:
    """One stream: how it is made, what is done with it, and what is left in the end."""

    config: dict[str, Any]
    model: ExpiryModel
    steps: list[tuple[Any, ...]] = field(default_factory=list)
    name: str = ""

    def rename(self) -> None:
        self.name = f"S{next(_numbers)}"
        self.config |= {"name": self.name, "subjects": [f"{self.name}.*"]}


def random_history(source: random.Random, *, restarts: bool) -> History:
    storage = "file" if restarts else source.choice(["file", "memory"])
    max_age, marker = source.choice([0, AGE, AGE]), source.choice([0, MARKER, MARKER])
    model = ExpiryModel(max_age, marker, allow_ttl=True, max_per_subject=source.choice([-1, -1, 1, 2]))
    # nats-server forgets at a restart that a message never expires, if the stream leaves no markers.
    ttls = [0, 0, TTL, LONG] + ([NEVER] if marker or not (restarts and max_age) else [])
    # Whether it leaves a marker depends on what goes first, which is not certain while a server is down.
    kinds = [] if restarts else ["kv_purge"]
    history = History(
        {
            "storage": storage,
            "max_age": max_age * SECOND,
            "duplicate_window": SECOND // 10,
            "allow_msg_ttl": True,
            "allow_rollup_hdrs": True,
            "subject_delete_marker_ttl": marker * SECOND,
            "max_msgs_per_subject": model.max_per_subject,
        },
        model,
    )
    for k in range(source.randint(1, 10)):
        subject, ttl = source.choice("abc"), source.choice(ttls)
        kind = source.choice(["", "", "", "", "sub", "all", "delete", "purge", *kinds])
        if kind == "delete" and model.kept:
            gone = source.choice(model.kept)
            model.remove([gone])
            history.steps.append(("delete", gone.seq))
        elif kind == "purge" and model.of(subject):
            model.remove(model.of(subject))
            history.steps.append(("purge", subject))
        else:
            rollup = kind if kind in ("sub", "all") else ""
            model.publish(subject, k, ttl, is_kv_purge=kind == "kv_purge", rollup=rollup)
            history.steps.append(("publish", subject, ttl, kind == "kv_purge", rollup))
    return history


def let_time_pass(model: ExpiryModel) -> None:
    for half in range(4 * AGE):
        model.expire(half * SECOND // 2)


async def fill(client: Client, history: History) -> bool:
    """Whether that was quick enough for nothing to expire meanwhile."""
    name = history.name
    answer = await ask(client, f"STREAM.CREATE.{name}", history.config)
    assert "error" not in answer, answer
    began = time.monotonic()
    for step in history.steps:
        if step[0] == "delete":
            await ask(client, f"STREAM.MSG.DELETE.{name}", {"seq": step[1]})
        elif step[0] == "purge":
            await ask(client, f"STREAM.PURGE.{name}", {"filter": f"{name}.{step[1]}"})
        else:
            _, subject, ttl, is_kv_purge, rollup = step
            headers = {"Nats-TTL": "never" if ttl == NEVER else str(ttl)} if ttl else {}
            headers |= {"KV-Operation": "PURGE"} if is_kv_purge else {}
            headers |= {"Nats-Rollup": rollup} if rollup else {}
            answer = await client.request(f"{name}.{subject}", b"x", timeout=30, headers=headers or None)
            assert b'"error"' not in answer.data, (step, answer.data)
    return time.monotonic() - began < FILL_SECONDS


async def fill_both(clients: list[Client], history: History) -> None:
    while True:
        history.rename()
        if all([await fill(client, history) for client in clients]):
            return
        for client in clients:
            await ask(client, f"STREAM.DELETE.{history.name}")


async def remaining(client: Client, history: History) -> list[Any]:
    """What is left as soon as it is as much as the model has left; at the latest when patience ends."""
    model, deadline = history.model, time.monotonic() + PATIENCE_SECONDS
    while True:
        state = (await ask(client, f"STREAM.INFO.{history.name}"))["state"]
        is_as_expected = (state["messages"], state["last_seq"]) == (len(model.kept), model.last_seq)
        if is_as_expected or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.1)
    left: list[Any] = [state["last_seq"]]
    for seq in range(state["first_seq"], state["last_seq"] + 1):
        answer = await ask(client, f"STREAM.MSG.GET.{history.name}", {"seq": seq})
        if "message" in answer:
            message = answer["message"]
            block = base64.b64decode(message.get("hdrs", "")).decode()
            left.append((seq, message["subject"].removeprefix(f"{history.name}."), block))
    return left


async def compare(clients: list[Client], histories: list[History]) -> None:
    for history in histories:
        real, ours = await asyncio.gather(*(remaining(client, history) for client in clients))
        shown = json.dumps([history.config, history.steps])
        expected = [(kept.seq, kept.subject) for kept in history.model.kept]
        assert [(seq, subject) for seq, subject, _ in real[1:]] == expected, f"nats-server: {shown}"
        assert ours == real, shown
    markers = sum(history.model.markers for history in histories)
    left = sum(len(history.model.kept) for history in histories)
    print(
        f"{len(histories)} streams, {markers} markers came and went, {left} messages are left on both servers"
    )


@asynccontextmanager
async def both_servers(directory: Path) -> AsyncIterator[list[Client]]:
    """A client of nats-server and one of headrace."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(jetstream_server(kind, directory / kind))
            for kind in ("nats-server", "headrace")
        ]
        async with AsyncExitStack() as connections:
            yield [await connections.enter_async_context(client_of(server)) for server in servers]


SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", SEEDS)
async def test_both_servers_keep_what_the_model_keeps(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    histories = [random_history(source, restarts=False) for _ in range(STREAMS)]
    async with both_servers(tmp_path) as clients:
        for history in histories:
            await fill_both(clients, history)
            let_time_pass(history.model)
        await compare(clients, histories)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", SEEDS)
async def test_both_servers_keep_it_if_time_passes_while_they_are_down(tmp_path: Path, seed: int) -> None:
    source = random.Random(1000 + seed)
    histories = [random_history(source, restarts=True) for _ in range(STREAMS)]
    async with both_servers(tmp_path) as clients:
        for history in histories:
            await fill_both(clients, history)
    for history in histories:
        let_time_pass(history.model)
    await asyncio.sleep(AGE + 1)
    async with both_servers(tmp_path) as clients:
        await compare(clients, histories)
