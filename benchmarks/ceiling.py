"""How much could the load generator carry if the server cost nothing? `python -m benchmarks.ceiling`

A second process on another core plays the server: it writes prebuilt blocks of MSG frames as fast as the
sockets accept them, or reads PUB frames and only counts them. What the generator sustains then is its
ceiling; a benchmark row well below it was not limited by the generator.

The last rows are about the disk: the most that any server could acknowledge if it syncs first and its clients
have this many messages in flight, with parsing, storing and answering for free.
"""

import os
import selectors
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from headrace.bench.clients.load import Load
from headrace.bench.generator import run_load
from headrace.bench.wire import block_of, publish_frame

# (what, connections, payload bytes, messages per connection, bytes per write or 0 for whole blocks)
SUBSCRIBING = [
    ("receive on 1 connection, 128 B", 1, 128, 15_000_000),
    ("receive on 10 connections, 128 B", 10, 128, 1_500_000),
    ("receive on 100 connections, 1000 B", 100, 1000, 30_000),
    ("receive on 1000 connections, 1000 B", 1000, 1000, 3_000),
    ("receive on 1 connection, 64 KiB", 1, 65536, 50_000),
]
PUBLISHING = [
    ("publish on 1 connection, 128 B", 1, 128, 15_000_000, False),
    ("publish on 10 connections, 128 B", 10, 128, 1_500_000, False),
    ("publish on 1 connection, 64 KiB", 1, 65536, 50_000, False),
    ("publish on 4 connections, one message per system call", 4, 128, 300_000, True),
]
IN_FLIGHT = (64, 256, 4096)
RECORD_BYTES = 176
"""About what a message of 128 B takes on disk, with its subject."""
SYNCS = 1000
FILE_BYTES = 64 << 20
ZEROS = bytes(1 << 20)


def connected_pairs(count: int) -> tuple[list[socket.socket], list[socket.socket]]:
    """Loopback TCP connections: our ends and the ends of the simulated server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours, theirs = [], []
        for _ in range(count):
            ours.append(socket.create_connection(listener.getsockname()))
            theirs.append(listener.accept()[0])
    for connection in ours + theirs:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours, theirs


def in_other_process(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        try:
            work()
        finally:
            os._exit(0)
    return pid


def answer_pings(connections: list[socket.socket]) -> None:
    """The subscribers' closing PINGs are not timed; some arrive after the compiled loop has ended."""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ, connection)
        while True:
            for key, _ in selector.select():
                if not (piece := key.data.recv(64)):
                    return
                key.data.sendall(b"PONG\r\n" * piece.count(b"PING\r\n"))


def receive_ceiling(connections: int, size: int, messages: int) -> tuple[float, float]:
    frame = b"MSG bench 1 %d\r\n%b\r\n" % (size, b"x" * size)
    ours, theirs = connected_pairs(connections)

    def serve() -> None:
        source = Load()
        for connection in theirs:
            source.add_publisher(
                connection.fileno(), block_of(frame), messages * len(frame), len(block_of(frame))
            )
        source.run()
        answer_pings(theirs)

    load = Load()
    for connection in ours:
        load.add_subscriber(connection.fileno(), messages, same_frames=True)
    return measured(load, serve, ours + theirs, messages, size, connections)


def publish_ceiling(connections: int, size: int, messages: int, one_per_write: bool) -> tuple[float, float]:
    frame = publish_frame(b"bench", b"x" * size)
    ours, theirs = connected_pairs(connections)

    def serve() -> None:
        sink = Load()
        for connection in theirs:
            sink.add_subscriber(connection.fileno(), messages, same_frames=True)
        sink.run()
        answer_pings(theirs)

    load, block = Load(), block_of(frame)
    write_length = len(frame) if one_per_write else len(block)
    for connection in ours:
        load.add_publisher(connection.fileno(), block, messages * len(frame), write_length)
    return measured(load, serve, ours + theirs, messages, size, connections)


def measured(
    load: Load,
    serve: Callable[[], None],
    sockets: list[socket.socket],
    messages: int,
    size: int,
    connections: int,
) -> tuple[float, float]:
    pid = in_other_process(serve)
    try:
        run = run_load(load, messages, size)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        for connection in sockets:
            connection.close()
    return messages * connections / run.seconds, run.generator_cpu_share


def sync_ceiling(in_flight: int, threads: int) -> float:
    """Messages per second: each thread writes its share into blocks that were written before, and syncs."""
    data = os.urandom(in_flight // threads * RECORD_BYTES)
    with tempfile.TemporaryFile() as file:
        for place in range(0, FILE_BYTES, len(ZEROS)):
            os.pwrite(file.fileno(), ZEROS, place)
        os.fsync(file.fileno())

        def write(thread: int) -> float:
            seconds = []
            for number in range(SYNCS):
                place = (threads * number + thread) * len(data) % (FILE_BYTES - len(data))
                began = time.perf_counter()
                os.pwrite(file.fileno(), data, place)
                os.fdatasync(file.fileno())
                seconds.append(time.perf_counter() - began)
            return statistics.median(seconds)

        with ThreadPoolExecutor(threads) as pool:
            return in_flight / statistics.mean(pool.map(write, range(threads)))


def main() -> int:
    print(f"{'what':<56} {'msgs/s':>12} {'MB/s':>8} {'generator CPU':>14}")
    for name, connections, size, messages in SUBSCRIBING:
        show(name, size, *receive_ceiling(connections, size, messages))
    for name, connections, size, messages, one_per_write in PUBLISHING:
        show(name, size, *publish_ceiling(connections, size, messages, one_per_write))
    for in_flight in IN_FLIGHT:
        show(f"sync {in_flight} messages at a time, 128 B", 128, sync_ceiling(in_flight, 1))
        show("the same in two halves, by two threads", 128, sync_ceiling(in_flight, 2))
    return 0


def show(name: str, size: int, rate: float, cpu_share: float | None = None) -> None:
    share = "" if cpu_share is None else f"{cpu_share:.0%}"
    print(f"{name:<56} {rate:>12,.0f} {rate * size / 1e6:>8,.0f} {share:>14}".rstrip(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
