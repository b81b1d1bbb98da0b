"""The runs that the report is about, with known answers; and how to find one of them in it."""

from __future__ import annotations

from pathlib import Path

import numpy
from pyarrow import parquet

from headrace.bench.report.content import Content, Run, Summary
from tests.bench.saved_runs import client, save_run, upper_bound

RANDOM = numpy.random.default_rng(20260301)
LATENCIES = [RANDOM.lognormal(4.5, 0.8, size).tolist() for size in (15_000, 14_999)]
"""As many as have no percentile at the edge of a rank, where numpy would round 0.999 * n up."""
TOTALS = {"headrace": (9_000_000, 10_000_000, 14_000_000), "nats-server": (3_000_000, 4_000_000, 3_500_000)}
STEPS = {"p50": 5000, "p90": 4000, "p99": 900, "p99_9": 90, "p99_99": 9, "max_us": 1}

VARIANTS = ("10 subjects, wildcard >", "10 subjects, a subscription each")


def save_known_runs(directory: Path) -> None:
    """Runs of two servers on one machine, and older ones on another."""
    for server, totals in TOTALS.items():
        for number, total in enumerate(totals):
            publishers = [client("pub", 100_000, 0.1)]
            subscribers = [client("sub", 100_000, seconds) for seconds in [0.1] * 8 + [0.16, 0.2]]
            save_run(
                directory,
                f"fan-{server}-{number}",
                publishers + subscribers,
                minute=number * 10,
                server_name=server,
                server_version="2.15.1" if server == "nats-server" else f"0.{number + 1}.0",
                preset="rnats-1x10",
                num_msgs=100_000,
                total_msgs_per_sec=float(total),
                server_cpu_seconds=1.5,
                server_peak_rss_bytes=30_000_000 + number,
            )
    pair = [client("pub", 30_000, 2.0), client("sub", 30_000, 2.0)]
    save_run(directory, "random", pair, workload="latency", slices=LATENCIES, rate_wanted=15_000.0)
    steps = [upper_bound(2.0**place) for place, count in enumerate(STEPS.values()) for _ in range(count)]
    save_run(directory, "steps", pair, workload="latency", slices=[steps, []], rate_wanted=5_000.0)
    save_run(directory, "no-slices", pair, workload="latency", num_msgs=7)
    requests = [
        client("requester", 4_000, 2.0),
        client("requester", 4_000, 1.6),
        client("responder", 8_000, 2.0),
    ]
    save_run(directory, "ask", requests, workload="request", slices=[[100.0] * 10])
    for connections, peak in ((100, 22_000_000), (10_000, 52_000_000)):
        save_run(
            directory,
            f"idle-{connections}",
            [client("idle", 0, 0.0)],
            workload="connections",
            connections=connections,
            rss_per_connection=3_200.0,
            server_peak_rss_bytes=peak,
        )
    for number, variant in enumerate(VARIANTS):
        about = {"workload": "subjects", "variant": variant, "total_msgs_per_sec": 1000.0 * (number + 1)}
        save_run(directory, f"subjects-{number}", pair, **about)
    # One that was saved before there were variants.
    path = directory / "clients-ask.parquet"
    parquet.write_table(parquet.read_table(path).drop_columns(["variant"]), path)
    for number in range(2):
        save_run(
            directory,
            f"elsewhere-{number}",
            [client("pub", 1, 1.0)],
            minute=-60,
            machine="bbbb2222",
            cpu="Older CPU",
            total_msgs_per_sec=77.0,
        )


def find_run(content: Content, run_id: str) -> Run:
    return next(run for run in content.runs if run.run_id == run_id)


def find_summary(content: Content, workload: str, server: str = "headrace", **wanted: object) -> Summary:
    found = [
        summary
        for summary in content.summaries
        if (summary.workload, summary.server_name) == (workload, server)
        and all(getattr(summary, name) == value for name, value in wanted.items())
    ]
    assert len(found) == 1, found
    return found[0]
