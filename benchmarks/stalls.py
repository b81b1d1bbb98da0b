"""How long does everybody else wait while one client asks for something big? `python -m benchmarks.stalls`

A bystander pings the server every few milliseconds from a process of its own, and an operation runs on a
stream of many small messages. What is shown is the bystander's longest wait, its 99th percentile, and how
long the operation took. On a busy machine the longest wait is often the machine's, so there is also how much
CPU time the server's main thread spent during a wait, at most: for a server whose main thread does everything
that is the wait on a machine of its own, for others it means nothing.

    python -m benchmarks.stalls [--server headrace] [--server nats-server] [--messages 1000000] [NAME ...]
"""

import argparse
import itertools
import json
import multiprocessing
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from headrace.bench.failure import BenchError
from headrace.bench.servers import Process, find_server, running
from headrace.bench.wire import open_connections
from headrace.client.addresses import Address

PING_SECONDS = 0.003
SUBJECTS = 100_000
PAYLOAD = b"x" * 16
BLOCK_MESSAGES = 1000
REQUEST_SECONDS = 120.0
FEW_STREAMS = 1000
SUBSCRIPTIONS = 1_000_000

Fields = dict[str, Any]


class Asker:
    """One connection that publishes blocks and sends requests, one at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        connection.settimeout(REQUEST_SECONDS)
        self._numbers = itertools.count()
        self._received = connection.makefile("rb", buffering=1 << 20)
        connection.sendall(b"SUB _INBOX.stalls.* 1\r\n")

    def ask(self, subject: str, fields: Fields | None = None) -> Fields:
        """An answer of the API, which must not be an error."""
        body = json.dumps(fields).encode() if fields is not None else b""
        answer: Fields = json.loads(self.request(f"$JS.API.{subject}".encode(), body))
        if "error" in answer:
            raise BenchError(f"{subject}: {answer['error']}")
        return answer

    def request(self, subject: bytes, body: bytes = b"", *, until: bytes = b"") -> bytes:
        """The first answer's body; `until`: the first one whose headers contain this.

        What a consumer delivers has a subject of its own, and is an answer, too.
        """
        inbox = b"_INBOX.stalls.%d" % next(self._numbers)
        self.connection.sendall(b"PUB %b %b %d\r\n%b\r\n" % (subject, inbox, len(body), body))
        while True:
            answered, headers, payload = self._message()
            if until in headers and (answered == inbox or not answered.startswith(b"_INBOX.")):
                return payload

    def _message(self) -> tuple[bytes, bytes, bytes]:
        while True:
            line = self._received.readline()
            if not line:
                raise BenchError("the server closed the connection")
            words = line.rstrip().split(b" ")
            if words[0] == b"MSG":
                return words[1], b"", self._received.read(int(words[-1]) + 2)[:-2]
            if words[0] == b"HMSG":
                data = self._received.read(int(words[-1]) + 2)[:-2]
                return words[1], data[: int(words[-2])], data[int(words[-2]) :]
            if words[0] == b"PING":
                self.connection.sendall(b"PONG\r\n")
            elif words[0] == b"-ERR":
                raise BenchError(line.decode().strip())


# -- streams


def create(asker: Asker, name: str, **config: Any) -> None:
    with suppress(BenchError):
        asker.ask(f"STREAM.DELETE.{name}")
    asker.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], "storage": "file", **config})


def update(asker: Asker, name: str, **config: Any) -> None:
    old = asker.ask(f"STREAM.INFO.{name}")["config"]
    asker.ask(f"STREAM.UPDATE.{name}", {**old, **config})


def fill(asker: Asker, name: str, messages: int, *, ttl: str = "") -> None:
    """Publish without waiting, then wait until all is stored."""
    before = asker.ask(f"STREAM.INFO.{name}")["state"]["last_seq"]
    block = b"NATS/1.0\r\nNats-TTL: %b\r\n\r\n" % ttl.encode()
    for start in range(0, messages, BLOCK_MESSAGES):
        frames = []
        for number in range(start, min(start + BLOCK_MESSAGES, messages)):
            subject = b"%b.%d.%d" % (name.encode(), number // 100 % (SUBJECTS // 100), number % 100)
            if ttl:
                size = len(block) + len(PAYLOAD)
                frames.append(b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, len(block), size, block, PAYLOAD))
            else:
                frames.append(b"PUB %b %d\r\n%b\r\n" % (subject, len(PAYLOAD), PAYLOAD))
        asker.connection.sendall(b"".join(frames))
        if start % (5 * BLOCK_MESSAGES) == 0:  # nats-server drops what it cannot store in time
            asker.ask(f"STREAM.INFO.{name}")
    deadline = time.monotonic() + REQUEST_SECONDS
    while asker.ask(f"STREAM.INFO.{name}")["state"]["last_seq"] < before + messages:
        if time.monotonic() > deadline:
            raise BenchError("not all messages were stored")
        time.sleep(0.1)


def consume(asker: Asker, name: str, consumer: str, **config: Any) -> None:
    config = {"durable_name": consumer, "ack_policy": "explicit", **config}
    asker.ask(f"CONSUMER.DURABLE.CREATE.{name}.{consumer}", {"stream_name": name, "config": config})


def await_count(asker: Asker, name: str, count: int) -> None:
    deadline = time.monotonic() + REQUEST_SECONDS
    while asker.ask(f"STREAM.INFO.{name}")["state"]["messages"] != count:
        if time.monotonic() > deadline:
            raise BenchError(f"{name} has not {count} messages")
        time.sleep(0.02)


# -- operations: each prepares a stream and yields; what follows is watched by the bystander

Operation = Callable[[Asker, int, Address], Iterator[None]]
OPERATIONS: dict[str, Operation] = {}


def operation(name: str) -> Callable[[Operation], Operation]:
    def add(function: Operation) -> Operation:
        OPERATIONS[name] = function
        return function

    return add


def _ready(asker: Asker, messages: int, **config: Any) -> None:
    create(asker, "S", **config)
    fill(asker, "S", messages)


def _purge(name: str, **request: Any) -> None:
    @operation(name)
    def run(asker: Asker, messages: int, address: Address) -> Iterator[None]:
        _ready(asker, messages)
        yield
        asker.ask("STREAM.PURGE.S", request)


def _update(name: str, **config: Any) -> None:
    @operation(name)
    def run(asker: Asker, messages: int, address: Address) -> Iterator[None]:
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
def expiry(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    create(asker, "S", max_age=1_000_000_000 * (10 + messages // 100_000))
    fill(asker, "S", messages)
    yield
    await_count(asker, "S", 0)


@operation("message-ttl")
def message_ttl(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    create(asker, "S", allow_msg_ttl=True)
    fill(asker, "S", messages // 10, ttl="8s")
    yield
    await_count(asker, "S", 0)


@operation("subjects")
def subjects(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    _ready(asker, messages)
    yield
    asker.ask("STREAM.INFO.S", {"subjects_filter": ">"})


@operation("subjects-stale")
def subjects_stale(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    """After the first message of every subject was removed."""
    _ready(asker, messages)
    asker.ask("STREAM.PURGE.S", {"seq": messages // 3})
    yield
    asker.ask("STREAM.INFO.S", {"subjects_filter": ">"})


@operation("deleted")
def deleted(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    _ready(asker, messages)
    asker.ask("STREAM.PURGE.S", {"filter": "S.*.7", "seq": messages})
    asker.ask("STREAM.PURGE.S", {"filter": "S.7.>", "seq": messages})
    yield
    asker.ask("STREAM.INFO.S", {"deleted_details": True})


@operation("deleted-most")
def deleted_most(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    create(asker, "S", max_msgs_per_subject=1)
    asker.connection.sendall(b"PUB S.first 0\r\n\r\n")
    fill(asker, "S", messages)
    yield
    asker.ask("STREAM.INFO.S", {"deleted_details": True})


@operation("delete-stream")
def delete_stream(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    _ready(asker, messages)
    yield
    asker.ask("STREAM.DELETE.S")


@operation("delete-memory-stream")
def delete_memory_stream(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    _ready(asker, messages, storage="memory")
    yield
    asker.ask("STREAM.DELETE.S")


def _consumer(name: str, **config: Any) -> None:
    @operation(name)
    def run(asker: Asker, messages: int, address: Address) -> Iterator[None]:
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
def consumer_no_match(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    """A filter that nothing matches but the last message: all others have to be passed over."""
    _ready(asker, messages)
    asker.connection.sendall(b"PUB S.rare.one 0\r\n\r\n")
    consume(asker, "S", "one", filter_subject="S.rare.>")
    yield
    asker.request(b"$JS.API.CONSUMER.MSG.NEXT.S.one", b'{"batch":1,"expires":5000000000}')


@operation("get-no-match")
def get_no_match(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    _ready(asker, messages)
    asker.connection.sendall(b"PUB S.rare.one 0\r\n\r\n")
    yield
    asker.ask("STREAM.MSG.GET.S", {"seq": 1, "next_by_subj": "S.rare.>"})


@operation("direct-no-match")
def direct_no_match(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    _ready(asker, messages, allow_direct=True)
    asker.connection.sendall(b"PUB S.rare.one 0\r\n\r\n")
    yield
    asker.request(b"$JS.API.DIRECT.GET.S", b'{"seq":1,"next_by_subj":"S.rare.>"}')


@operation("direct-multi")
def direct_multi(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    """The last messages of 1000 subjects as of the middle of the stream."""
    _ready(asker, messages, allow_direct=True)
    yield
    request = {"multi_last": ["S.*.7"], "up_to_seq": messages // 2}
    asker.request(b"$JS.API.DIRECT.GET.S", json.dumps(request).encode(), until=b"EOB")


@operation("interest-delete")
def interest_delete(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    """One of two consumers goes, and what only it needed."""
    create(asker, "S", retention="interest")
    consume(asker, "S", "one", filter_subject="S.*.7")
    consume(asker, "S", "two")
    fill(asker, "S", messages)
    yield
    asker.ask("CONSUMER.DELETE.S.two")
    asker.ask("STREAM.INFO.S")


@operation("interest-create")
def interest_create(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    create(asker, "S", retention="interest")
    consume(asker, "S", "one")
    fill(asker, "S", messages)
    yield
    consume(asker, "S", "two", filter_subject="S.*.7")


@operation("to-interest")
def to_interest(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    _ready(asker, messages)
    consume(asker, "S", "one", filter_subject="S.*.7")
    yield
    update(asker, "S", retention="interest")


@operation("interest-ack-all")
def interest_ack_all(asker: Asker, messages: int, address: Address) -> Iterator[None]:
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
    def run(asker: Asker, messages: int, address: Address) -> Iterator[None]:
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


@operation("subscriptions")
def subscriptions(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    """A connection with a million subscriptions closes."""
    with open_connections(address, [b""]) as (connection,):
        for start in range(0, SUBSCRIPTIONS, BLOCK_MESSAGES):
            numbers = range(start, start + BLOCK_MESSAGES)
            connection.sendall(b"".join(b"SUB a.%d.%d %d\r\n" % (n % 1000, n // 1000, n) for n in numbers))
        connection.sendall(b"PING\r\n")
        while b"PONG" not in connection.recv(4096):
            pass
        time.sleep(0.5)
        yield
        connection.shutdown(socket.SHUT_RDWR)  # the bystander's process has the socket, too
    time.sleep(1)


def _many(name: str, request: Callable[[Asker], object]) -> None:
    @operation(name)
    def run(asker: Asker, messages: int, address: Address) -> Iterator[None]:
        for number in range(FEW_STREAMS):
            create(asker, f"M{number}", storage="memory")
        yield
        for _ in range(5):
            request(asker)


_many("list", lambda asker: asker.ask("STREAM.LIST", {}))
_many("names", lambda asker: asker.ask("STREAM.NAMES", {"subject": "M7.>"}))
_many("account", lambda asker: asker.ask("INFO"))


@operation("mirror")
def mirror(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    _ready(asker, messages)
    yield
    asker.ask("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S"}})
    await_count(asker, "M", messages)
    asker.ask("STREAM.DELETE.M")


@operation("source")
def source(asker: Asker, messages: int, address: Address) -> Iterator[None]:
    """With a filter that takes little of the origin."""
    _ready(asker, messages)
    yield
    sources = [{"name": "S", "filter_subject": "S.*.7"}]
    asker.ask("STREAM.CREATE.M", {"name": "M", "sources": sources})
    await_count(asker, "M", messages // 100)
    asker.ask("STREAM.DELETE.M")


# -- the bystander


Wait = tuple[float, float, float]
"""When it began, how long it lasted, and the server's CPU time within it, in seconds."""


def stand_by(address: Address, pid: int, orders: Connection) -> None:
    """Ping until told to end; then say how long each answer took, with when it was asked for."""
    waits: list[Wait] = []
    used = Path(f"/proc/{pid}/task/{pid}/schedstat")
    with socket.create_connection((address.host, address.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
        while b"PONG" not in connection.recv(4096):
            pass
        orders.send(True)
        while not orders.poll():
            before, started = int(used.read_text().split()[0]), time.monotonic()
            connection.sendall(b"PING\r\n")
            while b"PONG" not in connection.recv(4096):
                pass
            lasted = time.monotonic() - started
            waits.append((started, lasted, (int(used.read_text().split()[0]) - before) / 1e9))
            time.sleep(PING_SECONDS)
    orders.send(waits)


@contextmanager
def bystander(server: Process, result: list[Wait]) -> Iterator[None]:
    """The waits of the pings that were sent within the block."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=stand_by, args=(server.address, server.pid, theirs)
    )
    process.start()
    ours.recv()
    started = time.monotonic()
    try:
        yield
    finally:
        ended = time.monotonic()
        ours.send(None)
        waits = ours.recv()
        process.join()
        result += [wait for wait in waits if wait[0] + wait[1] >= started and wait[0] <= ended]


def measure(name: str, asker: Asker, messages: int, server: Process) -> str:
    steps = OPERATIONS[name](asker, messages, server.address)
    next(steps)
    waits: list[Wait] = []
    with bystander(server, waits):
        started = time.monotonic()
        next(steps, None)
        took = time.monotonic() - started
    lasted = sorted(wait[1] * 1000 for wait in waits) or [0.0]
    worst, most = lasted[-1], lasted[len(lasted) * 99 // 100]
    busy = max((wait[2] * 1000 for wait in waits), default=0.0)
    return f"max {worst:8.1f} ms   p99 {most:8.1f} ms   cpu {busy:8.1f} ms   took {took:7.3f} s"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stalls", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*OPERATIONS, []], metavar="NAME")
    parser.add_argument("--server", action="append", default=[])
    parser.add_argument("--messages", type=int, default=1_000_000)
    asked = parser.parse_args(arguments)
    for name in asked.names or OPERATIONS:
        for server in asked.server or ["headrace", "nats-server"]:
            try:
                with (
                    running(find_server(server), streams=True) as process,
                    open_connections(process.address, [b""]) as (connection,),
                ):
                    shown = measure(name, Asker(connection), asked.messages, process)
            except (BenchError, OSError) as error:
                shown = str(error)
            print(f"{name:22s} {server:12s} {shown}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
