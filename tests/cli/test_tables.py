"""Tables fit the terminal, whatever is in them; quantities are read as the nats tool reads them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import unicodedata
from collections.abc import Iterator

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.command import headrace
from headrace.cli.human import age, duration, moment, parse_moment, parse_time, size
from headrace.cli.tables import Column, cut, facts_lines, table_lines, text_width, wrapped
from headrace.quantities import parse_duration, parse_size, write_duration, write_size
from tests.cli.commands import environment
from tests.cli.screens import read_terminal

COLUMNS = [
    Column("Name", flexible=True),
    Column("Subjects", flexible=True, wrap=True),
    Column("Messages", number=True),
    Column("Size", number=True),
    Column("Last", number=True, optional=1),
    Column("Created", optional=2),
]
ROWS = [
    ["ORDERS", "orders.eu, orders.us", 1_234_567, "1.2 GiB", "3s", "2026-11-16 20:30:00 UTC"],
    ["A_STREAM_WITH_A_LONG_NAME", "a.long.subject.that.goes.on.and.on", 0, "0 B", "never", "never"],
]


def test_a_wide_table_shows_everything() -> None:
    assert table_lines(COLUMNS, ROWS, 200) == [
        "Name                       Subjects                             Messages     Size   Last  Created",
        "ORDERS                     orders.eu, orders.us                1,234,567  1.2 GiB     3s"
        "  2026-11-16 20:30:00 UTC",
        "A_STREAM_WITH_A_LONG_NAME  a.long.subject.that.goes.on.and.on          0      0 B  never  never",
    ]


def test_a_narrow_table_shrinks_text_and_leaves_out_what_is_optional() -> None:
    assert table_lines(COLUMNS, ROWS, 60) == [
        "Name                 Subjects              Messages     Size",
        "ORDERS               orders.eu,           1,234,567  1.2 GiB",
        "                     orders.us",
        "A_STREAM_WITH_A_LO…  a.long.subject.that          0      0 B",
        "                     .goes.on.and.on",
    ]


def test_output_that_goes_nowhere_in_particular_is_not_cut() -> None:
    assert table_lines(COLUMNS, ROWS) == table_lines(COLUMNS, ROWS, 1000)


texts = st.text(max_size=60)
rows = st.lists(st.tuples(texts, texts, st.integers(0, 1 << 64), texts, texts, texts).map(list), max_size=5)


@given(rows=rows, width=st.integers(40, 220))
def test_no_line_is_wider_than_the_terminal(rows: list[list[str | int]], width: int) -> None:
    lines = table_lines(COLUMNS, rows, width)
    assert max(map(text_width, lines)) <= width
    assert not any(unicodedata.category(character) == "Cc" for line in lines for character in line)
    assert len(lines) > len(rows)


@given(text=texts, width=st.integers(2, 40))
def test_wrapped_text_is_complete(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert lines
    assert all(text_width(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@given(text=texts, width=st.integers(1, 40))
def test_cut_text_says_so(text: str, width: int) -> None:
    shown = cut(text, width)
    assert text_width(shown) <= width
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))


def test_facts_are_aligned_and_wrapped() -> None:
    pairs = [("Name", "ORDERS"), ("Description", ""), ("Subjects", "one two three four"), ("Messages", 12345)]
    assert facts_lines(pairs, 24) == [
        "    Name:  ORDERS",
        "Subjects:  one two three",
        "           four",
        "Messages:  12,345",
    ]


PROGRAM = """
from headrace.cli.tables import Column, print_json, table
table([Column("Name", flexible=True), Column("Messages", number=True)], [["x" * 300, 5]])
print_json({"name": "gr\\u00fcn \\x9b\\ud800", "count": 1})
"""


def test_a_terminal_gets_lines_that_fit() -> None:
    master, slave = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], stdout=slave, check=True, env=environment(COLUMNS="50", NO_COLOR="1")
    )
    os.close(slave)
    text = read_terminal(master).replace("\r\n", "\n")
    assert done.returncode == 0
    assert text.splitlines()[1] == "x" * 39 + "…" + "         5"


def test_a_pipe_gets_everything_and_json_is_safe() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True, env=environment())
    lines = done.stdout.decode().splitlines()
    assert lines[1].startswith("x" * 300)
    assert json.loads("\n".join(lines[2:])) == {"name": "grün \x9b\ud800", "count": 1}
    assert "\x9b" not in done.stdout.decode()


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1048575, "1 MiB"),
        (1 << 62, "4 EiB"),
    ],
)
def test_sizes_are_human(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("text", "count"),
    [("-1", -1), ("1024", 1024), ("1k", 1024), ("64MB", 64 << 20), ("10KiB", 10240), ("1 G", 1 << 30)],
)
def test_sizes_are_read(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (999, "999ns"),
        (20_000_000, "20ms"),
        (1_500_000_000, "1.5s"),
        (90 * 10**9, "1m30s"),
        (3600 * 10**9, "1h"),
        (100_000 * 10**9, "1d3h"),
        (10**18, "31y259d"),
    ],
)
def test_durations_are_human(nanoseconds: int, text: str) -> None:
    assert duration(nanoseconds) == text


def test_durations_are_read() -> None:
    assert parse_duration("1h30m") == 5400 * 10**9
    assert parse_duration("1.5s") == 1_500_000_000
    assert parse_duration("2d") == 2 * 86400 * 10**9
    assert parse_duration("0") == 0


@given(st.integers(0, 2**63 - 1))
def test_what_is_written_is_read_as_the_same(number: int) -> None:
    assert parse_duration(write_duration(number)) == number
    assert parse_size(write_size(number)) == number


def test_what_is_written_is_short() -> None:
    assert write_duration(7 * 86400 * 10**9) == "7d"
    assert write_duration(5400 * 10**9) == "1h30m"
    assert write_size(64 << 20) == "64MiB"
    assert write_size(1000) == "1000"


@pytest.mark.parametrize("text", ["", "1", "h", "-1s", "1h 30m", "٣s", "300y", "9" * 5000 + "s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011, the text is what matters to users
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "x", "1.5G", "-2", "1XB", "99E", "9" * 5000])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_size(text)


@pytest.mark.parametrize("text", ["2026-02-30T00:00:00Z", "2026-1-1", "1969-12-31T23:59:59Z", "2026"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_moment(text)


def test_times() -> None:
    assert parse_time("1970-01-01T00:00:01.5Z") == 1_500_000_000
    assert parse_time("1970-01-01T01:00:00+01:00") == 0
    assert parse_time("2262-01-01 00:00:00") == 9214646400 * 10**9
    assert moment("2026-11-16T20:30:00.123456789Z") == "2026-11-16 20:30:00 UTC"
    assert moment("0001-01-01T00:00:00Z") == age("0001-01-01T00:00:00Z") == age("") == "never"
    assert age("1970-01-01T00:00:00Z", now_ns=90 * 10**9) == "1m30s"
    assert age("1970-01-01T00:02:00Z", now_ns=90 * 10**9) == "0s"


def every_help(command: click.Command, path: str) -> Iterator[tuple[str, list[str]]]:
    """What `--help` prints in a terminal of 80 columns, for a command and those in it."""
    context = click.Context(command, info_name=path, terminal_width=80, max_content_width=80)
    yield path, command.get_help(context).splitlines()[1:]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from every_help(found, f"{path} {name}")


def test_help_fits_into_eighty_columns() -> None:
    """Only a command of an example may be longer: it is meant to be copied."""
    found = dict(every_help(headrace, "headrace"))
    assert len(found) > 70
    for path, lines in found.items():
        for line in lines:
            assert not line.endswith("..."), f"{path}: {line}"
            is_command = line.startswith("    headrace ") and "   " not in line.strip()
            assert len(line) <= 80 or is_command, f"{path}: {line}"
