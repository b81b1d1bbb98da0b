"""Headrace compared with nats-server: `python -m benchmarks [--rounds 5] [--rows KEY,...] [--quick] [--long]
[--server NAME=COMMAND]`.

The rows are the suites full and streams (with --long: long) of `headrace bench compare`; this file has their
targets.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace

from headrace.bench.comparison import show_comparison
from headrace.bench.failure import BenchError
from headrace.bench.servers import Server, find_server
from headrace.bench.suites import FULL, LONG, QUICK_FACTOR, ROUNDS, STREAMS
from headrace.errors import UsageError

# The ratio to nats-server; at least this for a rate, at most this for a cost.
TARGETS = {
    "1-0": 5,
    "1-1": 3,
    "1-10": 4,
    "10-10": 5,
    "10-10-permissions": 4.5,  # at most a tenth less
    "10-100": 1.8,
    "10-100-alike": 2,
    "10-1000": 2,
    "1-10-on-one": 4,
    "queues": 4,
    "headers": 4,
    "64k": 2,
    "4-1": 1,
    "request-1": 1,
    "request-64": 2.5,
    "subjects": 1,
    "idle": 1,
    "tls-1-1": 1.5,
    "tls-10-10": 1.5,
    "tls-handshakes": 1,
    "tls-idle": 1,
    "websocket": 1.5,
    "stream-4096": 8,
    "stream-4096-always": 100,
    "stream-1-always": 1,
    "stream-4096-ids": 6,
    "stream-256-expected": 3,
    "stream-256-expected-subject": 3,
    "kv-put": 4,
    "kv-get": 4,
    "stream-pull": 8,
    "stream-pull-none": 2,
    "stream-start": 1,
    "stream-recover": 1,
}
VALUE_LIMITS = {"stream-memory": 32}  # bytes per stored message
PEAK_RSS_LIMITS_MB = {"10-1000": 60}
ROWS = [
    replace(
        row,
        target=TARGETS.get(row.key),
        peak_rss_limit_mb=PEAK_RSS_LIMITS_MB.get(row.key),
        value_limit=VALUE_LIMITS.get(row.key),
    )
    for row in (*FULL, *STREAMS, *LONG)
]
LONG_KEYS = {row.key for row in LONG}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    rows = [row for row in ROWS if row.key in (options.rows or _of_suite(options.long))]
    if options.quick:
        rows = [replace(row, workload=row.workload.scaled(QUICK_FACTOR)) for row in rows]
    try:
        servers = [server_from(text) for text in options.server or ()] or [
            find_server("nats-server"),
            find_server("headrace"),
        ]
        return show_comparison(
            rows,
            servers,
            options.rounds or ROUNDS["long" if options.long else "full"],
            markdown=options.markdown,
            json_file=options.json,
        )
    except (BenchError, UsageError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    keys = [row.key for row in ROWS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Headrace compared with nats-server, as ratios."
    )
    parser.add_argument(
        "--rounds",
        type=int,
        help=f"runs of every row against every server ({ROUNDS['full']}, --long {ROUNDS['long']})",
    )
    parser.add_argument("--rows", type=lambda text: text.split(","), help=f"only these, of {','.join(keys)}")
    parser.add_argument("--long", action="store_true", help="only the rows that take minutes")
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages: to see that it works")
    parser.add_argument(
        "--server", action="append", metavar="NAME=COMMAND", help="the first is the reference"
    )
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    parser.add_argument("--json", metavar="FILE", help="also write every round to a file")
    options = parser.parse_args(arguments)
    if unknown := set(options.rows or ()) - set(keys):
        parser.error(f"no such row: {', '.join(sorted(unknown))} (there are {', '.join(keys)})")
    if options.rounds is not None and options.rounds < 1:
        parser.error("at least one round is needed")
    return options


def _of_suite(long: bool) -> set[str]:
    return LONG_KEYS if long else {row.key for row in ROWS} - LONG_KEYS


def server_from(text: str) -> Server:
    name, equals, command = text.partition("=")
    if not (name and equals and command):
        raise UsageError(f"--server takes NAME=COMMAND, not {text!r}")
    return Server(name, tuple(shlex.split(command)))


if __name__ == "__main__":
    sys.exit(main())
