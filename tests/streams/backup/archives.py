"""The client's side of backups: what `nats stream backup` and `nats stream restore` do."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

from headrace.engine.streams.archive import MAGIC
from headrace.engine.streams.s2 import STREAM_HEAD, Expander, compress

CHUNK = 64 * 1024
SECONDS = 60


class Failed(Exception):
    """A status or an error came instead."""


@dataclass
class Backup:
    config: dict[str, Any]
    state: dict[str, Any]
    data: bytes
    chunks: int = 0

    @property
    def plain(self) -> bytes:
        return expand(self.data)


def expand(data: bytes) -> bytes:
    expander = Expander()
    expander.feed(data)
    blocks = list(iter(expander.next, None))
    assert expander.is_between_chunks
    return b"".join(blocks)


def number(value: int) -> bytes:
    """A varint."""
    text = bytearray()
    while value >= 0x80:
        text.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*text, value])


def entry(name: bytes, body: bytes = b"", *, seq: int = 0, time: int = 0, headers: bytes = b"") -> bytes:
    sizes = number(seq) + number(len(headers)) + number(len(body))
    zigzag = time << 1 if time >= 0 else (-time << 1) - 1
    return number(len(name)) + number(zigzag) + sizes + name + headers + body


def entries(plain: bytes) -> list[tuple[bytes, int, bytes, bytes]]:
    """(name, sequence, headers, body) of all entries."""
    assert plain.startswith(MAGIC)
    at = len(MAGIC)
    found = []

    def take() -> int:
        nonlocal at
        value = shift = 0
        while plain[at] >= 0x80:
            value |= (plain[at] & 0x7F) << shift
            shift += 7
            at += 1
        at += 1
        return value | plain[at - 1] << shift

    while at < len(plain):
        name, _, seq, headers, body = (take() for _ in range(5))
        ends = at + name, at + name + headers, at + name + headers + body
        found.append((plain[at : ends[0]], seq, plain[ends[0] : ends[1]], plain[ends[1] : ends[2]]))
        at = ends[2]
    return found


def pack(*parts: bytes) -> bytes:
    """An archive of these entries, compressed."""
    return STREAM_HEAD + compress(MAGIC + b"".join(parts))


async def backup(client: Client, stream: str, **options: Any) -> Backup:
    """Raises Failed."""
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox, pending_msgs_limit=-1, pending_bytes_limit=-1)
    try:
        asked = json.dumps({"deliver_subject": inbox, **options}).encode()
        answer = await client.request(f"$JS.API.STREAM.SNAPSHOT.{stream}", asked, timeout=SECONDS)
        begun = json.loads(answer.data)
        if "error" in begun:
            raise Failed(begun["error"]["description"])
        chunks: list[bytes] = []
        while True:
            message = await subscription.next_msg(timeout=SECONDS)
            if not message.data:
                break
            chunks.append(message.data)
            if message.reply:
                await client.publish(message.reply, b"")
        check_status(message)
        return Backup(begun["config"], begun["state"], b"".join(chunks), len(chunks))
    finally:
        await subscription.unsubscribe()


def check_status(message: Msg) -> None:
    status = (message.headers or {}).get("Status", "204")
    if status != "204":
        raise Failed(f"{status} {(message.headers or {}).get('Description', '')}")


async def begin_restore(client: Client, stream: str, config: dict[str, Any]) -> str:
    """Where the chunks go. Raises Failed."""
    asked = json.dumps({"config": config, "state": {}}).encode()
    answer = await client.request(f"$JS.API.STREAM.RESTORE.{stream}", asked, timeout=SECONDS)
    begun = json.loads(answer.data)
    if "error" in begun:
        raise Failed(begun["error"]["description"])
    subject: str = begun["deliver_subject"]
    return subject


async def restore(client: Client, made: Backup, *, chunk: int = CHUNK, name: str = "") -> dict[str, Any]:
    """The answer at the end. Raises Failed."""
    config = {**made.config, "name": name or made.config["name"]}
    subject = await begin_restore(client, config["name"], config)
    for start in range(0, len(made.data), chunk):
        answer = await client.request(subject, made.data[start : start + chunk], timeout=SECONDS)
        assert answer.data == b""
    answer = await client.request(subject, b"", timeout=SECONDS)
    ended: dict[str, Any] = json.loads(answer.data)
    assert ended.pop("type") == "io.nats.jetstream.api.v1.stream_create_response"
    if "error" in ended:
        raise Failed(ended["error"]["description"])
    return ended


async def delete(client: Client, stream: str) -> None:
    await client.request(f"$JS.API.STREAM.DELETE.{stream}", b"", timeout=SECONDS)


async def messages(client: Client, stream: str) -> list[tuple[Any, ...]]:
    """All messages, with sequence, subject, headers, payload and time."""
    found = []
    seq = 1
    while True:
        body = json.dumps({"seq": seq, "next_by_subj": ">"}).encode()
        answer = json.loads(
            (await client.request(f"$JS.API.STREAM.MSG.GET.{stream}", body, timeout=SECONDS)).data
        )
        if "error" in answer:
            return found
        message = answer["message"]
        found.append(tuple(message.get(key) for key in ("seq", "subject", "hdrs", "data", "time")))
        seq = message["seq"] + 1


async def publish_many(client: Client, subject: str, count: int, *, size: int = 100) -> None:
    """With acknowledgements."""
    jetstream = client.jetstream(timeout=SECONDS)
    for start in range(0, count, 500):
        some = range(start, min(start + 500, count))
        await asyncio.gather(
            *(jetstream.publish(f"{subject}.{number % 7}", b"%d " % number + b"x" * size) for number in some)
        )
