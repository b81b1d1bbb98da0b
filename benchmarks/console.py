"""What does an open console cost? `python -m benchmarks.console [--rounds 9] [--pages 1] [--seconds 4]`

The same run against a server that nobody looks at, and one whose live view is open, in alternating rounds.
The ratio is the median of the rounds' ratios, because consecutive runs have the same conditions. On a busy
machine that is mostly noise. So the first figure is what a page costs a server that does nothing else, in
processor time, with 1,000 connections and 200 streams: 10 ms in a second are 1 % of a core.
"""

import argparse
import http.client
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from headrace.bench.failure import BenchError
from headrace.bench.figures import summarize
from headrace.bench.servers import Process, Running, find_server
from headrace.bench.workloads import PublishSubscribe

MONITOR = re.compile(r"Starting http monitor on 127\.0\.0\.1:(\d+)")
SHAPE = PublishSubscribe(10, 10, 128, 1_000_000)
VIEWS = ("overview", "connections", "streams")
IDLE_CONNECTIONS = 1000
IDLE_STREAMS = 200
DELIVERIES_PER_SECOND = 4_000_000  # about; only for the length of a run


@contextmanager
def open_pages(port: int, count: int, view: str = "") -> Iterator[list[int]]:
    """Readers of live views, as a page has one. Yields how many events each has got."""
    events = [0] * count
    links = [http.client.HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(count)]
    answers = []
    for number, link in enumerate(links):
        link.request("GET", f"/console/api/live/{view or VIEWS[number % len(VIEWS)]}")
        answers.append(link.getresponse())

    def read(number: int) -> None:
        try:
            while line := answers[number].readline():
                events[number] += line.startswith(b"event: view")
        except (OSError, ValueError):  # it was closed
            pass

    threads = [threading.Thread(target=read, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield events
    finally:
        for link in links:
            if link.sock:
                link.sock.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(5)
        for link in links:
            link.close()


@contextmanager
def monitored(*, streams: bool = False) -> Iterator[tuple[Process, int]]:
    """A server, and its monitoring port."""
    server = find_server("headrace")
    with tempfile.TemporaryDirectory(prefix="headrace-console-") as folder:
        started = Running(replace(server, command=(*server.command, "-m", "-1")), folder, streams=streams)
        try:
            process = started.await_ready()
            found = MONITOR.search(started.log.read_text())
            if found is None:
                raise BenchError("the monitor did not start")
            yield process, int(found[1])
        finally:
            started.stop()


def processor_seconds(process: Process) -> float:
    """Of all threads, in nanoseconds of the scheduler."""
    files = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def show_cost_of_a_page(seconds: float) -> None:
    with (
        monitored(streams=True) as (process, port),
        socket.create_connection((process.address.host, process.address.port)) as maker,
    ):
        maker.sendall(b'CONNECT {"verbose":false}\r\n')
        for number in range(IDLE_STREAMS):
            body = b'{"name":"S%d","subjects":["s%d"],"storage":"memory"}' % (number, number)
            maker.sendall(b"PUB $JS.API.STREAM.CREATE.S%d %d\r\n%s\r\n" % (number, len(body), body))
        address = (process.address.host, process.address.port)
        clients = [socket.create_connection(address) for _ in range(IDLE_CONNECTIONS)]
        for client in clients:
            client.sendall(b'CONNECT {"verbose":false}\r\nSUB a 1\r\n')
        time.sleep(2)
        costs = {}
        for view in ("", *VIEWS):
            with open_pages(port, 1 if view else 0, view):
                time.sleep(1)
                before = processor_seconds(process)
                time.sleep(seconds)
                costs[view] = (processor_seconds(process) - before) / seconds
        for client in clients:
            client.close()
    print(f"{IDLE_CONNECTIONS:,} connections, {IDLE_STREAMS} streams: processor time in a second")
    for view, cost in costs.items():
        more = f"  {(cost - costs['']) * 1e3:+.2f} ms" if view else ""
        print(f"  {view or 'nobody looks':<14}{cost * 1e3:6.2f} ms{more}", flush=True)


def run_once(workload: PublishSubscribe, pages: int) -> tuple[float, float, int]:
    """Deliveries per second, processor seconds of the server per delivery, and events that the pages got."""
    with monitored() as (process, port), open_pages(port, pages) as events:
        rate, cost = measure(workload, process)
        return rate, cost, sum(events)


def measure(workload: PublishSubscribe, process: Process) -> tuple[float, float]:
    before = process.cpu_seconds() or 0.0
    sample = workload.run(process.address, process.rss_bytes)
    used = (process.cpu_seconds() or 0.0) - before
    return sample.value, used / (workload.messages * workload.subscribers)


def main() -> int:
    parser = argparse.ArgumentParser(description="What an open console costs.")
    parser.add_argument("--rounds", type=int, default=9, help="runs of each (9)")
    parser.add_argument("--pages", type=int, default=1, help="pages that are open (1)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run, about (4)")
    parser.add_argument("--idle-seconds", type=float, default=10.0, help="to look at an idle server (10)")
    options = parser.parse_args()
    factor = options.seconds * DELIVERIES_PER_SECOND / (SHAPE.messages * SHAPE.subscribers)
    workload = SHAPE.scaled(factor)
    show_cost_of_a_page(options.idle_seconds)
    print(f"10 → 10, 128 B, {workload.messages:,} messages a run, {options.pages} pages", flush=True)
    measured: dict[int, list[tuple[float, float, int]]] = {0: [], options.pages: []}
    try:
        for number in range(options.rounds):
            order = (0, options.pages) if number % 2 == 0 else (options.pages, 0)
            for pages in order:
                measured[pages].append(run_once(workload, pages))
    except BenchError as error:
        print(f"console: {error}", file=sys.stderr)
        return 1
    show(measured[0], measured[options.pages])
    return 0


def show(closed: list[tuple[float, float, int]], opened: list[tuple[float, float, int]]) -> None:
    for name, runs in (("closed", closed), ("open", opened)):
        rate, cost = summarize([run[0] for run in runs]), summarize([run[1] for run in runs])
        spread = f"{rate.lowest / 1e6:.2f} to {rate.highest / 1e6:.2f}"
        events = sum(run[2] for run in runs)
        figures = f"{rate.median / 1e6:.2f} M/s ({spread}), {cost.median * 1e9:.1f} ns each"
        print(f"{name:<8}{figures}, {events} events")
    for name, place in (("rate", 0), ("processor time", 1)):
        ratio = summarize([b[place] / a[place] for a, b in zip(closed, opened, strict=True)])
        print(f"{name}, open to closed: {ratio.median:.3f} ({ratio.lowest:.3f} to {ratio.highest:.3f})")


if __name__ == "__main__":
    sys.exit(main())
