"""Results for people and for programs: tables that fit the terminal, lists of facts, and JSON.

    table([Column("Name", flexible=True), Column("Messages", number=True)], rows)
    facts([("Subjects", "orders.>"), ("Storage", "file")])
    print_json(document)

A table that is too wide for the terminal gives way in this order: flexible columns shrink to a comfortable
width, the widest first; optional columns are left out, the highest rank first; flexible columns shrink to a
few characters; finally all others do. What does not fit in a cell is cut with `…`, or wrapped where the
column says so. Output that does not go to a terminal is never cut: a program, or a file, gets everything.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeVar

import click

from headrace.cli.output import one_line

GAP = "  "
COMFORTABLE_WIDTH = 20
SMALLEST_FLEXIBLE_WIDTH = 8
SMALLEST_WIDTH = 4
LEAST_TERMINAL_WIDTH = 20
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"

# JSON that is shown on a terminal must not control it, and lone surrogates cannot be encoded.
_ESCAPED_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")

Command = TypeVar("Command", bound=Callable[..., Any])
Cell = str | int


@dataclass(frozen=True)
class Column:
    title: str
    _: KW_ONLY
    number: bool = False
    """Right-aligned; integers get thousands separators."""
    flexible: bool = False
    """Shrinks first when the table is too wide: names, subjects, text."""
    wrap: bool = False
    """Continues on the next line instead of being cut."""
    optional: int = 0
    """Left out when the table is too wide, the highest first; 0 stays."""


def json_option(command: Command) -> Command:
    """Adds --json, as `as_json: bool`."""
    return click.option("--json", "-j", "as_json", is_flag=True, help="Print one JSON document.")(command)


def print_json(document: Any) -> None:
    """One document, indented, with non-ASCII characters as they are."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    text = _ESCAPED_IN_JSON.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
    _print(text)


def table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, width: int | None = None) -> None:
    """Print the rows below the titles. Without `width` it is that of the terminal, if there is one."""
    lines = table_lines(columns, rows, terminal_width() if width is None else width)
    if _is_decorated():
        lines[0] = f"{BOLD}{lines[0]}{PLAIN}"
    _print("\n".join(lines))


def facts(pairs: Iterable[tuple[str, Cell]], *, title: str = "") -> None:
    """Print `name: value` lines with aligned values, below a title. Empty values are left out."""
    width = terminal_width()
    text = one_line(title)
    heading = (wrapped(text, width) if width else [text]) if text else []
    if _is_decorated():
        heading = [f"{BOLD}{line}{PLAIN}" for line in heading]
    _print("\n".join([*heading, *facts_lines(pairs, width)]))


def print_lines(lines: Iterable[str]) -> None:
    """One line each, such as names; nothing at all if there are none."""
    text = "\n".join(map(one_line, lines))
    if text:
        _print(text)


def table_lines(
    columns: Sequence[Column], rows: Iterable[Sequence[Cell]], width: int | None = None
) -> list[str]:
    """The lines of a table that is at most this wide. The first line is the titles."""
    cells = [
        [_text(cell, column) for cell, column in zip(row, columns, strict=True)]
        for row in [[column.title for column in columns], *rows]
    ]
    natural = [max(text_width(row[place]) for row in cells) for place in range(len(columns))]
    widths = _fit(columns, natural, width)
    return [line for row in cells for line in _row_lines(columns, row, widths)]


def facts_lines(pairs: Iterable[tuple[str, Cell]], width: int | None = None) -> list[str]:
    shown = [(name, _text(value)) for name, value in pairs if value != ""]
    indent = max((text_width(name) for name, _ in shown), default=0) + 1
    room = None if width is None else max(width - indent - 2, SMALLEST_FLEXIBLE_WIDTH)
    lines = []
    for name, value in shown:
        first, *more = wrapped(value, room) if room else [value]
        lines.append(f"{_pad(name + ':', indent, right=False)}  {first}".rstrip())
        lines += [f"{' ' * indent}  {line}" for line in more]
    return lines


def terminal_width() -> int | None:
    """None if stdout is not a terminal: then nothing has to fit."""
    if not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size().columns, LEAST_TERMINAL_WIDTH)


# -- widths -------------------------------------------------------------------------------------------------


def _fit(columns: Sequence[Column], natural: list[int], limit: int | None) -> dict[int, int]:
    """The width of each column that is shown, by its place."""
    widths = dict(enumerate(natural))
    if limit is None:
        return widths
    flexible = {place for place, column in enumerate(columns) if column.flexible}
    comfortable = _shrink(widths, flexible, COMFORTABLE_WIDTH, limit)
    droppable = sorted(
        (place for place, column in enumerate(columns) if column.optional),
        key=lambda place: columns[place].optional,
    )
    while _total(comfortable) > limit and droppable:
        del widths[droppable.pop()]
        comfortable = _shrink(widths, flexible, COMFORTABLE_WIDTH, limit)
    tight = _shrink(comfortable, flexible, SMALLEST_FLEXIBLE_WIDTH, limit)
    return _shrink(tight, set(widths), SMALLEST_WIDTH, limit)


def _shrink(widths: dict[int, int], places: set[int], smallest: int, limit: int) -> dict[int, int]:
    """Take from the widest of these columns, one character at a time, until all fit or all are small."""
    excess = _total(widths) - limit
    if excess <= 0:
        return dict(widths)
    result = {place: min(width, limit) if place in places else width for place, width in widths.items()}
    candidates = [place for place in result if place in places]
    while candidates and _total(result) > limit:
        widest = max(candidates, key=lambda place: result[place])
        if result[widest] <= smallest:
            break
        result[widest] -= 1
    return result


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + len(GAP) * max(len(widths) - 1, 0)


def text_width(text: str) -> int:
    """The columns that a text takes on a terminal: East Asian characters are wide, accents take none."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


# -- cells --------------------------------------------------------------------------------------------------


def cut(text: str, width: int) -> str:
    """The text, or its beginning and `…`, at most this wide."""
    return text if text_width(text) <= width else _beginning(text, width - 1) + "…"


def _beginning(text: str, width: int) -> str:
    """As much of it as is at most this wide."""
    for length, character in enumerate(text):
        width -= _character_width(character)
        if width < 0:
            return text[:length]
    return text


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most this width, broken at spaces where possible; at least one."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        candidate = f"{line} {word}" if line else word
        if text_width(candidate) <= width:
            line = candidate
            continue
        if line:
            lines.append(line)
        while text_width(word) > width:
            piece = _beginning(word, width) or word[0]
            lines.append(piece)
            word = word[len(piece) :]
        line = word
    return [*lines, line] if line or not lines else lines


def _text(cell: Cell, column: Column | None = None) -> str:
    if isinstance(cell, int) and (column is None or column.number):
        return f"{cell:,}"
    return one_line(str(cell)).replace("\t", " ")


def _row_lines(columns: Sequence[Column], row: list[str], widths: dict[int, int]) -> list[str]:
    cells = {
        place: wrapped(row[place], width) if columns[place].wrap else [cut(row[place], width)]
        for place, width in widths.items()
    }
    height = max((len(lines) for lines in cells.values()), default=1)
    result = []
    for number in range(height):
        parts = (
            _pad(lines[number] if number < len(lines) else "", widths[place], right=not columns[place].number)
            for place, lines in cells.items()
        )
        result.append(GAP.join(parts).rstrip())
    return result


def _pad(text: str, width: int, *, right: bool) -> str:
    """Filled with spaces, on the right or on the left."""
    spaces = " " * (width - text_width(text))
    return text + spaces if right else spaces + text


def _is_decorated() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _print(text: str) -> None:
    """UTF-8, whatever the locale says: names and messages come from anywhere."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode(errors="replace") + b"\n")
    sys.stdout.buffer.flush()
