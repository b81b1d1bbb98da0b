"""Links that go bad: partitions, half-open sockets, receivers that do not read (FAULTS 17, 18)."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.adversity.recorder import Connection, Record, check, create_stream, stored_messages
from tests.adversity.watch import MIB, Bystander, memory, reset_peak
from tests.servers import running_server

PATIENCE_SECONDS = 30.0
MOST_AHEAD = 100  # messages of 64 KiB: less than half of what may wait for a client


class Proxy:
    """Forwards bytes both ways until `cut`; from then on they vanish, and both sockets stay open."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._cut = threading.Event()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._cut.set()

    def close(self) -> None:
        self._listening.close()
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self._cut.is_set():
                    sink.sendall(data)


@contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()


def test_a_partitioned_client_is_stale_and_its_acknowledged_messages_are_there(tmp_path: Path) -> None:
    record = Record()
    config = "ping_interval: 1s\nping_max: 2\n"
    with (
        running_server("headrace", config, ["-js", "-sd", str(tmp_path)]) as server,
        proxy_to(server.port) as proxy,
        Bystander(server.port) as bystander,
    ):
        create_stream(server.port)
        publishing = threading.Thread(target=record.publish, args=(proxy.port,), daemon=True)
        publishing.start()
        while len(record.acknowledged) < 1000:
            time.sleep(0.001)
        proxy.cut()
        cut_at = time.monotonic()
        server.wait_for_log("Stale Connection")
        took = time.monotonic() - cut_at
        proxy.close()
        publishing.join(PATIENCE_SECONDS)
        check(record, stored_messages(server.port))
    print(f"partitioned: stale after {took:.1f} s, where (2 + 1) x 1 s are allowed; {bystander.describe()}")


def test_a_half_open_client_hears_as_many_pings_as_are_allowed() -> None:
    with (
        running_server("headrace", "ping_interval: 100ms\nping_max: 3\n") as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as client,
    ):
        client.sendall(b'CONNECT {"verbose":false}\r\n')
        received = b""
        while piece := client.recv(65536):
            received += piece
    lines = received.split(b"\r\n")[1:]
    assert lines == [b"PING", b"PING", b"PING", b"-ERR 'Stale Connection'", b""]
    print("half-open: closed at the interval after 3 unanswered pings")


def test_a_receiver_that_does_not_read_costs_no_more_than_its_limit() -> None:
    """It is closed, the memory it took is bounded, and whoever reads gets everything.

    The publisher is never far ahead of the reader, which would be slow, too, while this process has no turn.
    """
    limit, count, payload = 16 * MIB, 2000, bytes(64 * 1024)
    config = f"max_pending: {limit}\nwrite_deadline: 5s\n"
    with (
        running_server("headrace", config) as server,
        Connection(server.port) as reader,
        Connection(server.port) as stuck,
        Bystander(server.port) as bystander,
    ):
        for connection in (reader, stuck):
            connection.send(b"SUB flood 1\r\n")
            connection.ping()
        reset_peak(server.process.pid)
        before = memory(server.process.pid, "VmHWM")
        ahead = threading.Semaphore(MOST_AHEAD)
        publishing = threading.Thread(target=flood, args=(server.port, count, payload, ahead))
        publishing.start()
        received = 0
        for _, _, body, _ in reader.messages():
            assert body == payload
            received += 1
            ahead.release()
            if received == count:
                break
        publishing.join()
        server.wait_for_log("Slow Consumer")
        growth = memory(server.process.pid, "VmHWM") - before
    allowed = limit * 1.1 + 4 * MIB  # the shared buffers of reading and of one tick belong to nobody
    print(
        f"slow consumer: {growth / MIB:.1f} MiB at most for a limit of {limit / MIB:.0f} MiB; "
        f"the reader got all {received} messages; {bystander.describe()}"
    )
    assert growth <= allowed


def flood(port: int, count: int, payload: bytes, ahead: threading.Semaphore) -> None:
    with Connection(port) as publisher:
        for _ in range(count):
            assert ahead.acquire(timeout=PATIENCE_SECONDS)
            publisher.send(b"PUB flood %d\r\n%b\r\n" % (len(payload), payload))
        publisher.ping()
