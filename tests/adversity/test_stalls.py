"""Nobody waits: however much one client asks for at once, the event loop turns.

Measured is the longest turn, in CPU time of the thread. On a busy machine the same work takes more of that,
too: caches are cold, and what runs next to it shares its core. So the time is divided by how much longer than
usual other work takes at that moment, and the best of a few runs counts. On fifty times as many messages all
operations are measured by the long test, and by `python -m benchmarks.stalls`.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.stalls.__main__ import RUNS, best_of, started
from benchmarks.stalls.asker import Asker
from benchmarks.stalls.meter import Meter
from benchmarks.stalls.operations import OPERATIONS, Ports
from headrace.bench.wire import open_connections
from tests.sanitizers import ARE_AT_WORK

pytestmark = pytest.mark.skipif(ARE_AT_WORK, reason="code with sanitizers takes several times the CPU time")

MESSAGES = 20_000
MOST_SECONDS = 0.010
USUAL_SECONDS = 0.007  # of `slowness`, on two quiet cores, 2026-11-18
MOST_SCRAPE_SECONDS = 0.050
MILLION = 1_000_000
LONGER = {
    "subscribe": 20,  # this and the following lie near the limit, on either side
    "subscribe-queue": 20,
    "subscribe-one-subject": 20,
}
"""What may take longer than MOST_SECONDS with a million messages, in milliseconds."""

REQUESTS = (
    "varz",
    "healthz",
    "connect-bcrypt",
    "subscribe",
    "unsubscribe",
    "direct-middle",
    "direct-batch",
    "direct-last-any",
    "direct-multis",
    "gets",
    "infos",
    "long-request",
    "consumer-creates",
    "consumer-updates",
    "consumer-resets",
    "purges",
    "ack-all",
    "interest-ack-all",
    "limits-pending",
    "message-ids",
    "multi-last-all",
    "multi-last-patterns",
    "last-any-subject",
    "consumer-patterns",
    "consumer-last-of-each",
    "purge-keep-pattern",
    "last-deleted",
    "add-source",
    "wide-gap",
    "consumers-publish",
    "consumers-deliver",
    "consumers-interest",
    "consumers-purge",
    "create-subjects",
    "update-subjects",
    "delete-subjects",
    "names-subjects",
    "create-filters",
    "update-filters",
    "queue-filters",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Meter, Ports]]:
    with Meter(tmp_path_factory.mktemp("meter")) as meter, started("headrace", meter) as (_, ports):
        yield meter, ports


def slowness() -> float:
    """How many times the CPU time of a quiet machine this one needs now, for work like that of a server."""
    gc.disable()  # it would look at all that the tests have in memory
    try:
        started = time.thread_time()
        subjects = [f"orders.{number}.{number % 7}" for number in range(4000)]
        tokens = {tuple(subject.split(".")) for subject in json.loads(json.dumps(subjects))}
        assert len(sorted(tokens)) == len(subjects)
        return max(1.0, (time.thread_time() - started) / USUAL_SECONDS)
    finally:
        gc.enable()


def longest_turn(name: str, meter: Meter, ports: Ports) -> float:
    """In seconds of CPU time of a quiet machine."""
    with open_connections(ports.client, [b""]) as (connection,):
        steps = OPERATIONS[name](Asker(connection), MESSAGES, ports)
        next(steps)
        meter.begin()
        next(steps, None)
        return meter.longest_seconds() / slowness()


@pytest.mark.parametrize("name", REQUESTS)
def test_no_turn_is_long(name: str, server: tuple[Meter, Ports]) -> None:
    seconds = float("inf")
    for _ in range(RUNS + 1):
        seconds = min(seconds, longest_turn(name, *server))
        if seconds < MOST_SECONDS:
            break
    print(f"{name}: {seconds * 1000:.1f} ms of CPU in the longest turn (slowness {slowness():.2f})")
    assert seconds < MOST_SECONDS


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("metrics", MOST_SCRAPE_SECONDS),
        ("metrics-consumers", 2 * MOST_SCRAPE_SECONDS),
    ],  # measured: 9 and 27 ms
)
def test_a_scrape_with_a_thousand_streams_takes_little_of_the_loop(
    name: str, most: float, server: tuple[Meter, Ports]
) -> None:
    """Each turn is short, and so are all of them together."""
    longest, total = float("inf"), float("inf")
    for _ in range(RUNS):
        longest = min(longest, longest_turn(name, *server))
        total = min(total, server[0].total_seconds())
        if longest < MOST_SECONDS and total < most:
            break
    print(f"{name}: {total * 1000:.1f} ms of CPU, {longest * 1000:.1f} ms in the longest turn")
    assert longest < MOST_SECONDS
    assert total < most


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", OPERATIONS)
def test_no_turn_is_long_with_a_million_messages(name: str) -> None:
    """Prints the table, row by row."""
    assert best_of(RUNS, name, "headrace", MILLION) < LONGER.get(name, MOST_SECONDS * 1000)


def test_the_meter_sees_a_long_turn(tmp_path: Path) -> None:
    """The test of the test: a turn that takes long is measured as such."""
    program = (
        "import asyncio, time\n"
        "async def main():\n"
        "    await asyncio.sleep(0.01)\n"
        "    until = time.thread_time() + 0.05\n"
        "    while time.thread_time() < until: pass\n"
        "    await asyncio.sleep(0.01)\n"
        "asyncio.run(main())\n"
    )
    with Meter(tmp_path) as meter:
        assert not meter.is_read
        with meter.preloaded():
            subprocess.run([sys.executable, "-c", program], check=True)
        assert meter.is_read
        assert 0.05 <= meter.longest_so_far() < 0.2
