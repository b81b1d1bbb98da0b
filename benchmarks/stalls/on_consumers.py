"""Operations on a stream with a thousand consumers, each with a filter of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.stalls.asker import BLOCK_MESSAGES, PAYLOAD, Asker, await_count, create
from benchmarks.stalls.operations import Ports, operation

CONSUMERS = 1000
SHARE = 100
"""One message for this many that others have; at least MOST_PUBLISHED."""
MOST_PUBLISHED = 10_000


def _ready(asker: Asker, **config: Any) -> None:
    create(asker, "S", **config)
    consumer = {"ack_policy": "explicit", "mem_storage": True, "inactive_threshold": 600 * 10**9}
    names = [f"c{number}" for number in range(CONSUMERS)]
    for start in range(0, CONSUMERS, 100):
        requests = []
        for number, name in enumerate(names[start : start + 100], start):
            body = {
                "stream_name": "S",
                "config": {**consumer, "name": name, "filter_subject": f"S.*.{number}"},
            }
            requests.append((f"$JS.API.CONSUMER.CREATE.S.{name}".encode(), json.dumps(body).encode()))
        asker.pipeline(requests)


def _publish(asker: Asker, messages: int, consumers: int) -> None:
    """All in one go, for this many consumers, the last ones."""
    count = max(messages // SHARE, MOST_PUBLISHED)
    frame = b"PUB S.x.%d %d\r\n" + PAYLOAD + b"\r\n"
    numbers = [CONSUMERS - 1 - number % consumers for number in range(count)]
    for start in range(0, count, BLOCK_MESSAGES):
        block = numbers[start : start + BLOCK_MESSAGES]
        asker.connection.sendall(b"".join(frame % (number, len(PAYLOAD)) for number in block))
    await_count(asker, "S", count)


def _pull(asker: Asker, consumers: int, batch: int) -> None:
    """Let this many consumers, the last ones, wait for messages."""
    body = json.dumps({"batch": batch, "expires": 600 * 10**9}).encode()
    for number in range(CONSUMERS - consumers, CONSUMERS):
        next_message = b"$JS.API.CONSUMER.MSG.NEXT.S.c%d" % number
        asker.connection.sendall(b"PUB %b _INBOX.stalls.pull %d\r\n%b\r\n" % (next_message, len(body), body))


@operation("consumers-publish")
def consumers_publish(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    _ready(asker)
    yield
    _publish(asker, messages, 1)


@operation("consumers-deliver")
def consumers_deliver(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """Each looks for its messages among those of all the others."""
    _ready(asker)
    _pull(asker, CONSUMERS, 1000)
    yield
    _publish(asker, messages, CONSUMERS)


@operation("consumers-interest")
def consumers_interest(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """The stream asks of every message who needs it, also when one was acknowledged."""
    _ready(asker, retention="interest")
    yield
    _publish(asker, messages, 1)
    _pull(asker, 1, 1000)
    replies = asker.replies(1000)
    asker.connection.sendall(b"".join(b"PUB %b 4\r\n+ACK\r\n" % reply for reply in replies))
    await_count(asker, "S", max(messages // SHARE, MOST_PUBLISHED) - 1000)


@operation("consumers-purge")
def consumers_purge(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    _ready(asker)
    _publish(asker, messages, CONSUMERS)
    yield
    asker.ask("STREAM.PURGE.S", {"filter": "S.x.*"})
