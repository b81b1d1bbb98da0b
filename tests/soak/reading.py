"""Reads a whole stream back, over a plain socket, in one of two ways that the server serves differently."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from tests.adversity.recorder import Connection
from tests.soak.messages import Stored, header

BATCH = 500
API = "$JS.API"

Reader = Callable[[Connection, str, dict[str, Any]], Iterator[Stored]]


def read_stream(port: int, stream: str, read: Reader) -> tuple[list[Stored], dict[str, Any]]:
    """Everything in the stream, and its state. Nobody may publish or remove meanwhile."""
    with Connection(port) as connection:
        state = stream_state(connection, stream)
        return list(read(connection, stream, state)), state


def stream_state(connection: Connection, stream: str) -> dict[str, Any]:
    answer = connection.request(f"{API}.STREAM.INFO.{stream}")
    if "error" in answer:
        raise ConnectionError(f"{stream}: {answer['error']}")
    state: dict[str, Any] = answer["state"]
    return state


def directly(connection: Connection, stream: str, state: dict[str, Any]) -> Iterator[Stored]:
    """With direct gets of many messages: works for every retention."""
    inbox = _inbox()
    connection.send(b"SUB %b 3\r\n" % inbox)
    following = max(state["first_seq"], 1)  # 0: there has never been a message
    while following <= state["last_seq"]:
        body = json.dumps({"seq": following, "batch": BATCH}).encode()
        asked = b"PUB %b.DIRECT.GET.%b %b %d\r\n%b\r\n" % (
            *(API.encode(), stream.encode(), inbox, len(body), body),
        )
        connection.send(asked)
        for _, headers, payload, _ in connection.messages():
            status = headers.partition(b"\r\n")[0].removeprefix(b"NATS/1.0").strip()[:3]
            if status == b"404":
                return
            if status == b"204":
                if header(headers, "Nats-Num-Pending") == "0":
                    return
                break
            if status:
                raise ConnectionError(f"direct get of {stream}: {headers!r}")
            seq = int(header(headers, "Nats-Sequence") or 0)
            following = seq + 1
            yield Stored(seq, header(headers, "Nats-Subject") or "", headers, payload)


def with_a_consumer(connection: Connection, stream: str, state: dict[str, Any]) -> Iterator[Stored]:
    """With a pull consumer without acknowledgements: for streams with the retention `limits`."""
    config = {"deliver_policy": "all", "ack_policy": "none", "mem_storage": True}
    created = connection.request(f"{API}.CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
    if "error" in created:
        raise ConnectionError(f"{stream}: {created['error']}")
    name = created["name"]
    inbox = _inbox()
    connection.send(b"SUB %b 3\r\n" % inbox)
    pending = created["num_pending"]
    while pending:
        body = json.dumps({"batch": BATCH, "no_wait": True}).encode()
        asked = b"PUB %b.CONSUMER.MSG.NEXT.%b.%b %b %d\r\n%b\r\n" % (
            *(API.encode(), stream.encode(), name.encode(), inbox, len(body), body),
        )
        connection.send(asked)
        for subject, headers, payload, reply in islice(connection.messages(), BATCH):
            if not reply:  # a status: 404 when there are no more, 408 when there were fewer
                pending = 0
                break
            words = reply.split(b".")
            pending = int(words[8])
            yield Stored(int(words[5]), subject.decode(), headers, payload)
            if not pending:
                break
    connection.request(f"{API}.CONSUMER.DELETE.{stream}.{name}")


def _inbox() -> bytes:
    return b"_INBOX.soak.%b" % secrets.token_hex(8).encode()


READERS: dict[str, Reader] = {"direct gets": directly, "a consumer": with_a_consumer}
