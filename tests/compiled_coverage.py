"""Which lines of the compiled sources ran: python -m tests.compiled_coverage [--floor PERCENT] [--missing]

The debug build (`make test-debug`, `make coverage`) counts lines with gcov: each process adds its counts to
files beside the objects when it ends. What gcov knows are lines of C; Cython writes a comment with the file
and line of a statement before the C that it becomes. A statement ran if the first C of it did:

    /* "headrace/engine/segments/packing.pyx":66          the statement in line 66 of packing.pyx ...
     *     packing.starts[...] = <uint32_t> at         # <<<<<<<<<<<<<<
    */
    (__pyx_v_packing->starts[...]) = ...;              ... ran as often as this line

A statement without C (a declaration, `pass`) does not count. What a killed process did is lost.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "base-debug"
STATEMENT = re.compile(r' */\* "(headrace/.*\.p(?:yx|xd))":(\d+)$')
END_OF_COMMENT = re.compile(r" ?\*/$")
END_OF_STATEMENTS = "/* function exit code */"

Statements = dict[str, dict[int, bool]]
"""By file and line, whether it ran."""


def counts_of_lines() -> dict[Path, dict[int, int]]:
    """By C file and line, how often it ran. Lines without code are absent."""
    notes = sorted(str(path) for path in BUILD.glob(f"temp.*-{sys.implementation.cache_tag}/**/*.gcno"))
    if not notes:
        raise SystemExit(f"{BUILD.relative_to(ROOT)} has no counts: make test-debug or make coverage first")
    command = ["gcov", "--json-format", "--stdout", *notes]
    reports = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    counts: dict[Path, dict[int, int]] = {}
    for report in map(json.loads, reports.splitlines()):
        for file in report["files"]:
            if file["file"].startswith("build/") and (ROOT / file["file"]).exists():
                counts[ROOT / file["file"]] = {line["line_number"]: line["count"] for line in file["lines"]}
    return counts


def add_statements(generated: Path, counts: dict[int, int], statements: Statements) -> None:
    """Find the statements in a file that Cython generated."""
    statement: tuple[str, int] | None = None
    is_in_comment = False
    for number, text in enumerate(generated.read_text().splitlines(), 1):
        if is_in_comment:
            is_in_comment = not END_OF_COMMENT.match(text)
        elif match := STATEMENT.match(text):
            statement = match[1], int(match[2])
            is_in_comment = True
        elif END_OF_STATEMENTS in text:
            statement = None
        elif statement and number in counts:
            file, line = statement
            # A function in a .pxd is in the C of each module that uses it.
            statements[file][line] = statements[file].get(line, False) or counts[number] > 0
            statement = None


def measure() -> Statements:
    statements: Statements = defaultdict(dict)
    for generated, counts in counts_of_lines().items():
        add_statements(generated, counts, statements)
    # Others are left from a build of sources that were since removed.
    return {file: lines for file, lines in statements.items() if (ROOT / "src" / file).exists()}


def ranges(lines: list[int]) -> str:
    """[1, 2, 3, 7] as 1-3, 7."""
    found: list[list[int]] = []
    for line in lines:
        if found and line == found[-1][-1] + 1:
            found[-1].append(line)
        else:
            found.append([line])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in found)


def main() -> int:
    parser = ArgumentParser(prog="python -m tests.compiled_coverage", description="Line coverage of Cython.")
    parser.add_argument("--floor", type=float, default=0, help="fail below this percentage")
    parser.add_argument("--missing", action="store_true", help="list the lines that did not run, by file")
    arguments = parser.parse_args()
    if shutil.which("gcov") is None:
        print("Cython: lines are not counted, because there is no gcov (it comes with GCC)")
        return 0
    statements = measure()
    if arguments.missing:
        for file, lines in sorted(statements.items()):
            missing = ranges([line for line in sorted(lines) if not lines[line]])
            print(f"{100 * sum(lines.values()) / len(lines):5.1f} % of {len(lines):4}  {file}  {missing}")
    ran = sum(sum(lines.values()) for lines in statements.values())
    total = sum(map(len, statements.values()))
    percentage = 100 * ran / total
    print(f"Cython: {percentage:.1f} % of {total} lines ran (floor: {arguments.floor:g} %)")
    return 1 if percentage < arguments.floor else 0


if __name__ == "__main__":
    sys.exit(main())
