"""Operations of many requests in one write, about one large stream."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.stalls.asker import BLOCK_MESSAGES, PAYLOAD, Asker, consume, create, fill
from benchmarks.stalls.operations import Ports, operation

PIPELINED = 50

Preparation = Callable[[Asker, int], object]


def stream(asker: Asker, messages: int) -> None:
    create(asker, "S", allow_direct=True)
    fill(asker, "S", messages)


def with_consumer(asker: Asker, messages: int) -> None:
    stream(asker, messages)
    consume(asker, "S", "one", filter_subject="S.*.7")


def with_mirror(asker: Asker, messages: int) -> None:
    """The source has a filter and is in the middle of its origin."""
    stream(asker, messages)
    sources = [{"name": "S", "filter_subject": "S.*.7", "opt_start_seq": messages - 100}]
    asker.ask("STREAM.CREATE.M", {"name": "M", "sources": sources})


def _pipelined(
    name: str,
    subject: str,
    body: Callable[[int], dict[str, Any]] | None = None,
    *,
    prepare: Preparation = stream,
    count: int = PIPELINED,
    is_last: Callable[[bytes], bool] = lambda headers: True,
) -> None:
    @operation(name)
    def run(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
        prepare(asker, messages)
        yield
        payload = json.dumps(body(messages)).encode() if body else b""
        asker.pipeline([(subject.encode(), payload)] * count, is_last)


def _ends_batch(headers: bytes) -> bool:
    return b"EOB" in headers or b" 40" in headers


def _next_in_the_middle(messages: int) -> dict[str, Any]:
    return {"seq": messages // 2, "next_by_subj": "S.*.7", "batch": 1}


def _all_in_one(messages: int) -> dict[str, Any]:
    return {"stream_name": "S", "config": {"filter_subject": "S.*.7", "ack_policy": "explicit"}}


_pipelined("direct-middle", "$JS.API.DIRECT.GET.S", _next_in_the_middle, is_last=_ends_batch)
_pipelined("direct-batch", "$JS.API.DIRECT.GET.S", lambda _: {"seq": 1, "batch": 1000}, is_last=_ends_batch)
_pipelined("direct-last", "$JS.API.DIRECT.GET.S.S.7.7")
_pipelined("direct-last-any", "$JS.API.DIRECT.GET.S", lambda _: {"last_by_subj": "S.*.7"})
_pipelined("direct-time", "$JS.API.DIRECT.GET.S", lambda _: {"start_time": "2024-01-01T00:00:00Z"})
_pipelined("direct-multis", "$JS.API.DIRECT.GET.S", lambda _: {"multi_last": ["S.*.7"]}, is_last=_ends_batch)
_pipelined("gets", "$JS.API.STREAM.MSG.GET.S", lambda _: {"last_by_subj": "S.*.7"})
_pipelined("gets-next", "$JS.API.STREAM.MSG.GET.S", lambda n: {"seq": n // 2, "next_by_subj": "S.*.none"})
_pipelined("infos", "$JS.API.STREAM.INFO.S")
_pipelined("infos-subjects", "$JS.API.STREAM.INFO.S", lambda _: {"subjects_filter": "S.*.7"})
_pipelined("infos-source", "$JS.API.STREAM.INFO.M", prepare=with_mirror)
_pipelined("consumer-infos", "$JS.API.CONSUMER.INFO.S.one", prepare=with_consumer)
_pipelined("consumer-creates", "$JS.API.CONSUMER.CREATE.S", _all_in_one)
_pipelined("purges", "$JS.API.STREAM.PURGE.S", lambda _: {"filter": "S.*.none"})


@operation("long-request")
def long_request(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """Fifty thousand unknown fields, which are an error if the server is strict."""
    create(asker, "S")
    yield
    asker.request(b"$JS.API.STREAM.INFO.S", b"{%b}" % b",".join([b'"unknow":1'] * 50_000))


@operation("consumer-updates")
def consumer_updates(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """Every one has another filter, and is in the middle of the stream."""
    stream(asker, messages)
    start = {"deliver_policy": "by_start_sequence", "opt_start_seq": messages // 2}
    consume(asker, "S", "one", filter_subject="S.*.7", **start)
    yield
    requests = []
    for number in range(PIPELINED):
        config = {"durable_name": "one", "ack_policy": "explicit", "filter_subject": f"S.*.{number}", **start}
        body = json.dumps({"stream_name": "S", "config": config}).encode()
        requests.append((b"$JS.API.CONSUMER.DURABLE.CREATE.S.one", body))
    asker.pipeline(requests)


@operation("consumer-resets")
def consumer_resets(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    with_consumer(asker, messages)
    yield
    body = b'{"seq":%d}' % (messages // 2)
    asker.pipeline([(b"$JS.API.CONSUMER.RESET.S.one", body)] * PIPELINED)


@operation("limits-pending")
def limits_pending(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """A limit removes messages, a few at a time, while very many wait for acknowledgements."""
    some = messages // 4
    create(asker, "S", max_msgs=some)
    fill(asker, "S", some)
    consume(asker, "S", "one", max_ack_pending=-1, ack_wait=3_600_000_000_000)
    batch = b'{"batch":%d,"no_wait":true}' % (some + 1)
    asker.request(b"$JS.API.CONSUMER.MSG.NEXT.S.one", batch, until=b" 40")
    yield
    for _ in range(200):
        asker.connection.sendall(b"PUB S.more.x %d\r\n%b\r\n" % (len(PAYLOAD), PAYLOAD))
        time.sleep(0.005)


@operation("ack-all")
def ack_all(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    some = messages // 4
    create(asker, "S")
    consume(asker, "S", "one", ack_policy="all", max_ack_pending=-1)
    fill(asker, "S", some)
    batch = b'{"batch":%d,"no_wait":true}' % (some + 1)
    asker.request(b"$JS.API.CONSUMER.MSG.NEXT.S.one", batch, until=b" 40")
    time.sleep(1)
    yield
    asker.request(b"$JS.ACK.S.one.1.%d.%d.%d.0" % (some, some, time.time_ns()))


@operation("message-ids")
def message_ids(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """As many ids within the window."""
    create(asker, "S")
    yield
    for start in range(0, messages, BLOCK_MESSAGES):
        frames = []
        for number in range(start, start + BLOCK_MESSAGES):
            block = b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % number
            frames.append(b"HPUB S.x %d %d\r\n%b\r\n" % (len(block), len(block), block))
        asker.connection.sendall(b"".join(frames))
        if start % (20 * BLOCK_MESSAGES) == 0:
            asker.ask("STREAM.INFO.S")
    asker.ask("STREAM.INFO.S")
