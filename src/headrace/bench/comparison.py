"""For `headrace bench compare` and `make bench`: measure the rows, print the table, save the rounds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headrace.bench.compare import Row, compare
from headrace.bench.export import check_can_write
from headrace.bench.failure import BenchError
from headrace.bench.machine import describe_machine
from headrace.bench.progress import Rounds
from headrace.bench.servers import Server, allow_many_files
from headrace.bench.tables import as_json, markdown_table, notes, text_table


def show_comparison(
    rows: Sequence[Row], servers: Sequence[Server], rounds: int, *, markdown: bool, json_file: str | None
) -> int:
    """Prints the result; the exit code is 1 if a row failed. Raises BenchError if a server does not run."""
    if json_file:
        check_can_write(json_file)
    allow_many_files()
    servers = with_distinct_names(servers)
    about = describe_machine() | {server.name: server.version() for server in servers}
    print(*(f"{key}: {value}" for key, value in about.items()), sep="\n")
    print(f"{rounds} alternating rounds, medians (lowest to highest)", flush=True)
    progress = Rounds(rows, rounds)
    try:
        results = compare(rows, servers, rounds, progress)
    finally:
        progress.finish()
    names = [server.name for server in servers]
    print(markdown_table(results, names) if markdown else text_table(results, names))
    print(*notes(results, names), sep="\n")
    if json_file:
        _write(json_file, json.dumps(as_json(results, names, about), indent=1) + "\n")
    return 1 if any(result.error for result in results) else 0


def with_distinct_names(servers: Sequence[Server]) -> list[Server]:
    """`headrace`, `headrace (2)`: the same server twice shows how much of a difference is chance."""
    named: list[Server] = []
    for server in servers:
        taken = sum(other.name.partition(" (")[0] == server.name for other in named)
        named.append(replace(server, name=f"{server.name} ({taken + 1})") if taken else server)
    return named


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise BenchError(f"cannot write {path}: {error.strerror}") from None
