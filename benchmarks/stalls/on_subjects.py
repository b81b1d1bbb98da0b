"""Operations on a stream with as many subjects as messages, with many patterns, or with a wide gap."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.stalls.asker import BLOCK_MESSAGES, Asker, await_count, consume, create, update
from benchmarks.stalls.operations import Ports, operation

SHARE = 5
"""One subject for this many messages that others have."""
PATTERNS = [f"S.none{number}.*" for number in range(1000)]
JUMP = 2**53
DIRECT_GET = b"$JS.API.DIRECT.GET.S"


def _publish(asker: Asker, subjects: list[bytes]) -> None:
    for start in range(0, len(subjects), BLOCK_MESSAGES):
        block = subjects[start : start + BLOCK_MESSAGES]
        asker.connection.sendall(b"".join(b"PUB %b 0\r\n\r\n" % subject for subject in block))
        asker.ask("INFO")  # nats-server drops messages that it cannot store in time


def _ready(asker: Asker, messages: int) -> int:
    """Returns how many messages there are, each with a subject of its own."""
    create(asker, "S", allow_direct=True)
    some = messages // SHARE
    _publish(asker, [b"S.%d.x" % number for number in range(some)])
    await_count(asker, "S", some)
    return some


def _direct(name: str, **request: Any) -> None:
    @operation(name)
    def run(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
        _ready(asker, messages)
        yield
        asker.request(DIRECT_GET, json.dumps(request).encode(), until=b"NATS/1.0 4")


_direct("multi-last-all", multi_last=[">"])
_direct("multi-last-patterns", multi_last=PATTERNS)
_direct("last-any-subject", last_by_subj="S.*.y")


def _consumer(name: str, **config: Any) -> None:
    @operation(name)
    def run(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
        _ready(asker, messages)
        yield
        consume(asker, "S", "one", **config)


_consumer("consumer-patterns", filter_subjects=PATTERNS)
_consumer("consumer-each-subject", filter_subject="S.*.x")
_consumer("consumer-last-of-each", filter_subject="S.>", deliver_policy="last_per_subject")


@operation("purge-keep-pattern")
def purge_keep_pattern(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    _ready(asker, messages)
    yield
    asker.ask("STREAM.PURGE.S", {"filter": "S.*.x", "keep": 100})


@operation("last-deleted")
def last_deleted(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """The last message of a subject, when those behind all others were deleted."""
    create(asker, "S", allow_direct=True)
    some = messages // SHARE
    many = [b"S.%d.x" % number for number in range(some)]
    _publish(asker, [b"S.a", b"S.a", *many, b"S.a", b"S.a"])
    await_count(asker, "S", some + 4)
    asker.ask("STREAM.MSG.DELETE.S", {"seq": some + 3})
    yield
    asker.ask("STREAM.MSG.DELETE.S", {"seq": some + 4})
    asker.request(DIRECT_GET, b'{"last_by_subj":"S.a"}')
    asker.request(DIRECT_GET + b".S.a")


@operation("add-source")
def add_source(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """It may have been one before, so its last message is searched in all of the stream."""
    create(asker, "O")
    _ready(asker, messages)
    yield
    update(asker, "S", sources=[{"name": "O"}])
    asker.ask("STREAM.INFO.S")


@operation("wide-gap")
def wide_gap(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """What would walk along the sequences would not end."""
    create(asker, "O")
    create(asker, "S", subjects=[], mirror={"name": "O"}, allow_direct=True)
    _publish(asker, [b"O.x"] * 3)
    await_count(asker, "S", 3)
    asker.ask("STREAM.PURGE.O", {"seq": JUMP})
    _publish(asker, [b"O.x"])
    await_count(asker, "S", 4)
    asker.ask("STREAM.MSG.DELETE.S", {"seq": 3})
    yield
    asker.ask("STREAM.MSG.DELETE.S", {"seq": JUMP})
    asker.request(DIRECT_GET, b'{"last_by_subj":"O.x"}')
    asker.request(DIRECT_GET + b".O.x")
    asker.ask("STREAM.INFO.S", {"deleted_details": True})
    asker.ask("STREAM.PURGE.S", {"filter": "O.*", "keep": 1})
    asker.ask("STREAM.DELETE.S")
