"""Streams into Spark and back, compared with Parquet and with a source built on nats-py.

`python -m benchmarks.spark [--rows KEY,...] [--rounds 3] [--messages N] [--quick] [--servers A,B]
[--master M] [--json FILE]`

Both servers and one warm Spark session stay up for all rounds; each round runs all tasks on each of them, in
the order A B Parquet, then Parquet B A, and so on.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pyspark.cloudpickle import register_pickle_by_value

from benchmarks.spark import sources
from benchmarks.spark.family import family_cpu_seconds
from benchmarks.spark.result import (
    COMMITS,
    FROM_TABLE,
    HEADRACE,
    KEYS,
    LAND_TYPED,
    LINES,
    PARQUET,
    Line,
    Result,
    as_json,
    as_text,
    verdicts,
)
from benchmarks.spark.tables import JSON_STREAM, commit_seconds, json_payload
from benchmarks.spark.work import Place, fill, fill_table
from headrace.bench.export import check_can_write
from headrace.bench.machine import busy_seconds, describe_machine
from headrace.bench.servers import Server, find_server, running
from headrace.bench.suites import QUICK_FACTOR
from headrace.errors import HeadraceError
from headrace.spark.failure import reason_of
from headrace.spark.session import spark_session

ROUNDS = 3
MESSAGES = 3_000_000
NATS_PY_MESSAGES = 60_000


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    try:
        if options.json:
            check_can_write(options.json)
        servers = [find_server(name) for name in options.servers.split(",")]
        run(options, servers)
    except HeadraceError as error:
        print(f"benchmarks.spark: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        print(f"benchmarks.spark: {reason_of(error)}", file=sys.stderr)
        return 1
    return 0


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark", description="Streams into Spark and back, compared with Parquet."
    )
    parser.add_argument("--rows", metavar="KEY,...", help=f"only these of {', '.join(KEYS)}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of all the work ({ROUNDS})")
    parser.add_argument("--messages", type=int, default=MESSAGES, help=f"of the stream ({MESSAGES:,})")
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages: to see that it works")
    parser.add_argument(
        "--servers", default="nats-server,headrace", help="the first is the reference (nats-server,headrace)"
    )
    parser.add_argument("--master", default="local[2]", help="of Spark (local[2])")
    parser.add_argument("--json", metavar="FILE", help="also write every round to a file")
    options = parser.parse_args(arguments)
    if options.quick:
        options.messages = int(options.messages * QUICK_FACTOR)
    if options.rounds < 1 or options.messages < 100:
        parser.error("at least one round and 100 messages are needed")
    options.rows = options.rows.split(",") if options.rows else list(KEYS)
    if unknown := set(options.rows) - set(KEYS):
        parser.error(f"no row {', '.join(sorted(unknown))}: there are {', '.join(KEYS)}")
    return options


def run(options: argparse.Namespace, servers: Sequence[Server]) -> None:
    about = describe_machine() | {server.name: server.version() for server in servers}
    about["spark"] = f"{options.master}, {options.messages:,} messages of 128 B"
    print(*(f"{key}: {value}" for key, value in about.items()), sep="\n")
    print(f"{options.rounds} alternating rounds, medians (lowest to highest)", flush=True)
    with ExitStack() as stack:
        places = prepare(stack, options, servers)
        lines = [line for line in LINES if line.key in options.rows]
        result = measure(places, lines, options.rounds) if lines else Result()
        if COMMITS in options.rows:
            result.commits = commit_seconds(places[PARQUET])
    names = [server.name for server in servers]
    print(as_text(result, names))
    print(*verdicts(result, names), sep="\n", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(as_json(result, about), indent=1) + "\n")


def prepare(stack: ExitStack, options: argparse.Namespace, servers: Sequence[Server]) -> dict[str, Place]:
    """Servers with a full stream each, a table of the same messages, and Spark."""
    # Spark's workers do not see this package.
    register_pickle_by_value(sources)  # type: ignore[no-untyped-call]
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
    _say("starting Spark")
    spark = spark_session("headrace bench", master=options.master)
    stack.callback(spark.stop)
    spark.dataSource.register(sources.TimedSource)
    spark.dataSource.register(sources.NatsPySource)
    table = Place(spark, directory, options.messages, min(NATS_PY_MESSAGES, options.messages))
    places = {}
    for server in servers:
        process = stack.enter_context(running(server, streams=True))
        store = process.store if server.name == HEADRACE else ""
        places[server.name] = replace(table, url=f"nats://{process.address}", store=store)
        _say(f"filling a stream of {server.name}")
        fill(places[server.name])
        if LAND_TYPED.key in options.rows:
            fill(places[server.name], JSON_STREAM, json_payload)
    if any(line.key in options.rows for line in FROM_TABLE):
        fill_table(places[servers[0].name])
    places[PARQUET] = table
    return places


def measure(places: dict[str, Place], lines: Sequence[Line], rounds: int) -> Result:
    result = Result()
    for number in range(-1, rounds):  # the first of them warms up Java, and does not count
        kept = result if number >= 0 else Result()
        _say(f"round {number + 1} of {rounds}" if number >= 0 else "warming up")
        busy, ours, began = busy_seconds(), family_cpu_seconds(), time.perf_counter()
        for name, place in places.items() if number % 2 == 0 else reversed(places.items()):
            for line in lines:
                if place.store if line.with_store else place.url or line.with_parquet:
                    kept.add(line, name, line.run(place))
        others = busy_seconds() - busy - (family_cpu_seconds() - ours)
        kept.others.append(max(0.0, others) / (time.perf_counter() - began))
    return result


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
