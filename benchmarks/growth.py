"""What a message costs as things grow: `python -m benchmarks.growth [PART ...] [--largest 7] [--chart FILE]`

    subscribers      1 to 10,000 subscribers of one subject: nanoseconds per delivery
    subscriptions    1 to 1,000,000 subscriptions of one client, each to a subject of its own: per message
    streams          10,000 to 10^LARGEST stored messages: pull, STREAM.INFO and start

Only Headrace is measured, because the question is whether a line is flat. The best of three runs counts:
other processes can only make a run slower. The chart is an SVG file with logarithmic axes.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.chart import Line, draw
from headrace.bench.compare import measure
from headrace.bench.failure import BenchError
from headrace.bench.jetstream import open_api, stream_facts
from headrace.bench.servers import Process, Running, find_server
from headrace.bench.workloads import ManySubjects, PublishSubscribe, StreamConsume
from headrace.bench.workloads.stream_publish import publish_to_stream
from headrace.bench.workloads.stream_recovery import STOP_SECONDS, STREAM, await_stream, filling

RUNS = 3
DELIVERIES = 2_000_000
MESSAGES = 1_000_000
SIZE, STORED_SIZE = 128, 16
PULLED, BATCH = 200_000, 20_000
INFOS = 200
Point = tuple[int, float]


def subscribers(_: int) -> Iterator[Line]:
    """One subject with many receivers."""
    yield Line("ns per delivery", list(_points((1, 10, 100, 1_000, 10_000), _delivery)))


def _delivery(count: int) -> float:
    work = PublishSubscribe(1, count, SIZE, max(1, DELIVERIES // count))
    return 1e9 / measure(work, find_server("headrace")).sample.value


def subscriptions(_: int) -> Iterator[Line]:
    """One client with many subscriptions."""
    yield Line("ns per message", list(_points((1, 100, 10_000, 100_000, 1_000_000), _message)))


def _message(count: int) -> float:
    work = ManySubjects(count, SIZE, messages=MESSAGES, wildcard="none")
    return 1e9 / measure(work, find_server("headrace")).sample.value


def streams(largest: int) -> Iterator[Line]:
    """One stream with many messages; each is filled once."""
    lines = {name: Line(name, []) for name in ("ns per message pulled", "us per STREAM.INFO", "ms to start")}
    for exponent in range(4, largest + 1):
        count = 10**exponent
        with tempfile.TemporaryDirectory(prefix="headrace-growth-") as folder:
            _fill(folder, count)
            for name, value in _stored(folder, count).items():
                lines[name].points.append((count, value))
                print(f"  {count:13,} messages: {value:10,.1f} {name}", flush=True)
    yield from lines.values()


def _points(counts: Sequence[int], cost: Callable[[int], float]) -> Iterator[Point]:
    for count in counts:
        value = min(cost(count) for _ in range(RUNS))
        print(f"  {count:13,}: {value:10,.1f}", flush=True)
        yield count, value


def _fill(folder: str, count: int) -> None:
    started = Running(find_server("headrace"), folder, streams=True)
    try:
        address = started.await_ready().address
        plan = filling(STORED_SIZE, count)
        with plan.prepared(address) as ready:
            publish_to_stream(plan, address, ready.facts.last + 1)
        started.stop_cleanly(STOP_SECONDS)
    finally:
        started.stop()


def _stored(folder: str, count: int) -> dict[str, float]:
    best: dict[str, float] = {}
    for _ in range(RUNS):
        started = Running(find_server("headrace"), folder, streams=True)
        began = time.perf_counter()
        try:
            process, facts = await_stream(started, STREAM)
            seconds = time.perf_counter() - began
            if facts.messages != count:
                raise BenchError(f"the stream has {facts.messages:,} messages instead of {count:,}")
            figures = _figures(process, count) | {"ms to start": seconds * 1e3}
            started.stop_cleanly(STOP_SECONDS)
        finally:
            started.stop()
        best = {name: min(value, best.get(name, value)) for name, value in figures.items()}
    return best


def _figures(process: Process, count: int) -> dict[str, float]:
    with open_api(process.address) as api:
        began = time.perf_counter()
        for _ in range(INFOS):
            stream_facts(api, STREAM)
        info = (time.perf_counter() - began) / INFOS
    pull = StreamConsume(
        BATCH, STORED_SIZE, min(count, PULLED), acks="none", stream=STREAM, subject=STREAM, keep=True
    )
    rate = pull.run(process.address, process.rss_bytes).value
    return {"ns per message pulled": 1e9 / rate, "us per STREAM.INFO": info * 1e6}


def main(arguments: Sequence[str]) -> int:
    parts = {"subscribers": subscribers, "subscriptions": subscriptions, "streams": streams}
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description="What growth costs.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(parts)} (all)")
    parser.add_argument("--largest", type=int, default=7, help="stream: 10 to this power of messages (7)")
    parser.add_argument("--chart", type=Path, help="SVG file to write")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(parts):
        parser.error(f"there is no part {', '.join(unknown)}; choose from {', '.join(parts)}")
    lines: list[tuple[str, Line]] = []
    try:
        for name in options.parts or parts:
            print(name, flush=True)
            lines += [(name, line) for line in parts[name](options.largest)]
    except BenchError as error:
        print(f"benchmarks.growth: {error}", file=sys.stderr)
        return 1
    if options.chart:
        options.chart.write_text(draw(lines))
        print(f"chart: {options.chart}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
