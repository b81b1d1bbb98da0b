"""Operations on one large stream, or on very many."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.stalls.asker import Asker, await_count, consume, create, fill, update
from benchmarks.stalls.operations import Ports, operation

FEW_STREAMS = 1000


def _ready(asker: Asker, messages: int, **config: Any) -> None:
    create(asker, "S", **config)
    fill(asker, "S", messages)


def _purge(name: str, **request: Any) -> None:
    @operation(name)
    def run(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
        _ready(asker, messages)
        yield
        asker.ask("STREAM.PURGE.S", request)


def _update(name: str, **config: Any) -> None:
    @operation(name)
    def run(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
        _ready(asker, messages)
        yield
        update(asker, "S", **config)


_purge("purge-all")
_purge("purge-filter", filter="S.*.7")
_purge("purge-subject", filter="S.7.7")
_purge("purge-half", filter="S.*.*", seq=500_000)
_purge("purge-keep", keep=1000)
_purge("purge-seq", seq=900_000)
_update("max-msgs", max_msgs=1000)
_update("max-bytes", max_bytes=100_000)
_update("max-age", max_age=100_000_000, duplicate_window=100_000_000)
_update("max-per-subject", max_msgs_per_subject=1)


@operation("expiry")
def expiry(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    create(asker, "S", max_age=1_000_000_000 * (10 + messages // 100_000))
    fill(asker, "S", messages)
    yield
    await_count(asker, "S", 0)


@operation("message-ttl")
def message_ttl(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    create(asker, "S", allow_msg_ttl=True)
    fill(asker, "S", messages // 10, ttl="8s")
    yield
    await_count(asker, "S", 0)


@operation("subjects")
def subjects(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    _ready(asker, messages)
    yield
    asker.ask("STREAM.INFO.S", {"subjects_filter": ">"})


@operation("subjects-stale")
def subjects_stale(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """After the first message of every subject was removed."""
    _ready(asker, messages)
    asker.ask("STREAM.PURGE.S", {"seq": messages // 3})
    yield
    asker.ask("STREAM.INFO.S", {"subjects_filter": ">"})


@operation("deleted")
def deleted(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    _ready(asker, messages)
    asker.ask("STREAM.PURGE.S", {"filter": "S.*.7", "seq": messages})
    asker.ask("STREAM.PURGE.S", {"filter": "S.7.>", "seq": messages})
    yield
    asker.ask("STREAM.INFO.S", {"deleted_details": True})


@operation("deleted-most")
def deleted_most(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    create(asker, "S", max_msgs_per_subject=1)
    asker.connection.sendall(b"PUB S.first 0\r\n\r\n")
    fill(asker, "S", messages)
    yield
    asker.ask("STREAM.INFO.S", {"deleted_details": True})


@operation("delete-stream")
def delete_stream(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    _ready(asker, messages)
    yield
    asker.ask("STREAM.DELETE.S")


@operation("delete-memory-stream")
def delete_memory_stream(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    _ready(asker, messages, storage="memory")
    yield
    asker.ask("STREAM.DELETE.S")


def _consumer(name: str, **config: Any) -> None:
    @operation(name)
    def run(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
        _ready(asker, messages)
        yield
        consume(asker, "S", "one", **config)
        asker.ask("CONSUMER.INFO.S.one")


_consumer("consumer-filter", filter_subject="S.*.7")
_consumer("consumer-filters", filter_subjects=["S.*.7", "S.7.*", "S.8.9"])
_consumer(
    "consumer-middle", filter_subject="S.*.7", deliver_policy="by_start_sequence", opt_start_seq=500_000
)
_consumer("consumer-per-subject", filter_subject="S.>", deliver_policy="last_per_subject")


@operation("consumer-no-match")
def consumer_no_match(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """A filter that matches only the last message: all others have to be skipped."""
    _ready(asker, messages)
    asker.connection.sendall(b"PUB S.rare.one 0\r\n\r\n")
    consume(asker, "S", "one", filter_subject="S.rare.>")
    yield
    asker.request(b"$JS.API.CONSUMER.MSG.NEXT.S.one", b'{"batch":1,"expires":5000000000}')


@operation("get-no-match")
def get_no_match(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    _ready(asker, messages)
    asker.connection.sendall(b"PUB S.rare.one 0\r\n\r\n")
    yield
    asker.ask("STREAM.MSG.GET.S", {"seq": 1, "next_by_subj": "S.rare.>"})


@operation("direct-no-match")
def direct_no_match(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    _ready(asker, messages, allow_direct=True)
    asker.connection.sendall(b"PUB S.rare.one 0\r\n\r\n")
    yield
    asker.request(b"$JS.API.DIRECT.GET.S", b'{"seq":1,"next_by_subj":"S.rare.>"}')


@operation("direct-multi")
def direct_multi(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """The last messages of 1000 subjects, as of the middle of the stream."""
    _ready(asker, messages, allow_direct=True)
    yield
    request = {"multi_last": ["S.*.7"], "up_to_seq": messages // 2}
    asker.request(b"$JS.API.DIRECT.GET.S", json.dumps(request).encode(), until=b"EOB")


@operation("interest-delete")
def interest_delete(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """One of two consumers is deleted, and the messages that only it needed."""
    create(asker, "S", retention="interest")
    consume(asker, "S", "one", filter_subject="S.*.7")
    consume(asker, "S", "two")
    fill(asker, "S", messages)
    yield
    asker.ask("CONSUMER.DELETE.S.two")
    asker.ask("STREAM.INFO.S")


@operation("interest-create")
def interest_create(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    create(asker, "S", retention="interest")
    consume(asker, "S", "one")
    fill(asker, "S", messages)
    yield
    consume(asker, "S", "two", filter_subject="S.*.7")


@operation("to-interest")
def to_interest(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    _ready(asker, messages)
    consume(asker, "S", "one", filter_subject="S.*.7")
    yield
    update(asker, "S", retention="interest")


@operation("interest-ack-all")
def interest_ack_all(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """One acknowledgement that ends the wait of very many."""
    some = messages // 4
    create(asker, "S", retention="interest")
    consume(asker, "S", "one", ack_policy="all", max_ack_pending=-1)
    fill(asker, "S", some)
    batch = b'{"batch":%d,"no_wait":true}' % (some + 1)
    asker.request(b"$JS.API.CONSUMER.MSG.NEXT.S.one", batch, until=b" 40")
    yield
    asker.request(b"$JS.ACK.S.one.1.%d.%d.%d.0" % (some, some, time.time_ns()))
    await_count(asker, "S", 0)


def _pending(name: str, request: Callable[[Asker], object]) -> None:
    @operation(name)
    def run(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
        some = messages // 4
        create(asker, "S")
        fill(asker, "S", some)
        consume(asker, "S", "one", max_ack_pending=-1, ack_wait=3_600_000_000_000)
        batch = b'{"batch":%d,"no_wait":true}' % (some + 1)
        asker.request(b"$JS.API.CONSUMER.MSG.NEXT.S.one", batch, until=b" 40")
        time.sleep(1)
        yield
        request(asker)
        time.sleep(0.5)


_pending("pending-delete", lambda asker: asker.ask("CONSUMER.DELETE.S.one"))
_pending("pending-info", lambda asker: asker.ask("CONSUMER.INFO.S.one"))
_pending("pending-ack", lambda asker: asker.request(b"$JS.ACK.S.one.1.1.1.%d.0" % time.time_ns()))
_pending("pending-purge", lambda asker: asker.ask("STREAM.PURGE.S"))


def _many(name: str, request: Callable[[Asker], object]) -> None:
    @operation(name)
    def run(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
        for number in range(FEW_STREAMS):
            create(asker, f"M{number}", storage="memory")
        yield
        for _ in range(5):
            request(asker)


_many("list", lambda asker: asker.ask("STREAM.LIST", {}))
_many("names", lambda asker: asker.ask("STREAM.NAMES", {"subject": "M7.>"}))
_many("account", lambda asker: asker.ask("INFO"))


@operation("mirror")
def mirror(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    _ready(asker, messages)
    yield
    asker.ask("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S"}})
    await_count(asker, "M", messages)
    asker.ask("STREAM.DELETE.M")


@operation("source")
def source(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """With a filter that matches few messages of the origin."""
    _ready(asker, messages)
    yield
    sources = [{"name": "S", "filter_subject": "S.*.7"}]
    asker.ask("STREAM.CREATE.M", {"name": "M", "sources": sources})
    await_count(asker, "M", messages // 100)
    asker.ask("STREAM.DELETE.M")
