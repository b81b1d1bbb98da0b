"""Latency at fixed rates: `python -m benchmarks.latency [--rounds 5] [--seconds 3]`

1 → 1, 128 B, at 20,000 messages per second and at half of the highest rate that nats-server reaches in the
same run, so that both servers get the same work. Rounds alternate; medians of the rounds are shown. A message
counts from the time at which it was due (see docs/benchmarks.md, coordinated omission).
"""

import argparse
import sys
from collections.abc import Sequence
from statistics import median

from headrace.bench.compare import measure
from headrace.bench.failure import BenchError
from headrace.bench.servers import find_server
from headrace.bench.workloads import FixedRate, PublishSubscribe

SERVERS = ("nats-server", "headrace")
FIXED_RATE = 20_000
SIZE = 128
PERCENTILES = ("p50_us", "p99_us", "p99.9_us")
MOST = PublishSubscribe(1, 1, SIZE, 1_500_000)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description="Latency at two rates.")
    parser.add_argument("--rounds", type=int, default=5, help="of each server; medians are shown (5)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run (3)")
    options = parser.parse_args(arguments)
    try:
        highest = median(rates_of("nats-server", options.rounds))
        for rate in (FIXED_RATE, highest / 2):
            show(rate, FixedRate(rate, options.seconds, SIZE), options.rounds)
    except BenchError as error:
        print(f"benchmarks.latency: {error}", file=sys.stderr)
        return 1
    return 0


def rates_of(name: str, rounds: int) -> list[float]:
    return [measure(MOST, find_server(name)).sample.value for _ in range(rounds)]


def show(rate: float, work: FixedRate, rounds: int) -> None:
    """The figures of both servers, and their ratio: below 1 is better than nats-server."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in SERVERS}
    for number in range(rounds):
        for name in SERVERS if number % 2 == 0 else reversed(SERVERS):
            print(f"{rate:,.0f}/s, round {number + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
            found[name].append(measure(work, find_server(name)).sample.extra)
    print(f"{rate:,.0f} messages per second", *(f"{name:>14}" for name in SERVERS), "   ratio")
    for percentile in PERCENTILES:
        reference, ours = (median(run[percentile] for run in found[name]) for name in SERVERS)
        name = percentile.removesuffix("_us")
        print(f"  {name:29} {reference:11,.1f} us {ours:11,.1f} us {ours / reference:8.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
