"""A pipeline of three sinks while it runs, and when it comes back after kill -9: the targets of both.

`python -m benchmarks.spark.pipeline [--seconds 60] [--rate 5000]`

It is the pipeline of the demo (`examples/shop`): a table of typed rows, a table of windows, a stream of
alerts. Orders come at a fixed rate all the time. The latency of an order is from when it was due until the
commit that holds it; orders that waited for the restart do not count. The restart is from the kill to the
first commit of the pipeline that was started again with the same command.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from examples.demo import job
from examples.demo.latency import latencies, percentile, undisturbed
from examples.demo.processes import Failure
from examples.demo.screen import Screen
from examples.demo.summary import adds_up
from headrace.errors import HeadraceError

LATENCY_SECONDS = 1.0
RESTART_SECONDS = 12.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark.pipeline", description="Latency and restart of a pipeline."
    )
    parser.add_argument("--seconds", type=int, default=60, help="of the feed (60)")
    parser.add_argument("--rate", type=int, default=5000, help="orders per second (5000)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-pipeline-") as directory:
        settings = job.Settings(Path(directory, "demo"), options.seconds, options.rate, seed=7)
        try:
            outcome = job.run(settings, Screen())
        except (Failure, HeadraceError) as failure:
            print(f"benchmarks.spark.pipeline: {failure}", file=sys.stderr)
            return 1
    print(*verdicts(outcome, options.rate), sep="\n", flush=True)
    return 0


def verdicts(outcome: job.Outcome, rate: int) -> list[str]:
    """One line per target."""
    found = undisturbed(latencies(outcome.plan, outcome.batches), outcome.killed, outcome.back)
    ordered = sorted(latency.seconds for latency in found)
    middle = percentile(ordered, 50.0) if ordered else math.inf
    worst = percentile(ordered, 99.0) if ordered else math.inf
    down = outcome.back - outcome.killed
    lines = [
        f"publish to table, three sinks, {rate:,} messages a second: p50 {middle:.2f} s, p99 {worst:.2f} s, "
        f"at most {LATENCY_SECONDS:g} is aimed at: {_verdict(middle <= LATENCY_SECONDS)}",
        f"restart after kill -9, three sinks: {down:.1f} s, "
        f"at most {RESTART_SECONDS:g} is aimed at: {_verdict(down <= RESTART_SECONDS)}",
    ]
    if not adds_up(outcome.checks):
        lines.append("what is in streams and tables does NOT add up: run `make demo` to see it")
    return lines


def _verdict(reached: bool) -> str:
    return "reached" if reached else "NOT reached"


if __name__ == "__main__":
    sys.exit(main())
