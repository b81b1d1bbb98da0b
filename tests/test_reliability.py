"""docs/reliability.md has every fault and every class of advisories, and each names tests that exist."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest

from tests.interop.catalogue import SESSIONS, STREAM_SESSIONS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "reliability.md").read_text()
FAULTS = 54
ADVISORY_CLASSES = 19
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
QUOTED = re.compile(r"`([^`]+)`")
UNCOVERED = "not covered yet"


def rows() -> list[tuple[int, str]]:
    """The number of each row, and its cell with the tests."""
    lines = [line for line in TEXT.splitlines() if re.match(r"\| \d+ \|", line)]
    return [(int(cells[1]), cells[4]) for cells in (line.split("|") for line in lines)]


def advisory_classes() -> list[tuple[str, str]]:
    """Each class, and its cell with the tests."""
    section = TEXT.partition("\n## Classes of published advisories\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [(cells[1].strip(), cells[3]) for cells in (line.split("|") for line in lines)]


ROWS = rows()
CLASSES = advisory_classes()
SESSION_NAMES = [session.name for session in (*SESSIONS, *STREAM_SESSIONS)]


def test_every_fault_has_one_row() -> None:
    assert [number for number, _ in ROWS] == list(range(1, FAULTS + 1))


def check_tests(row: object, tests: str) -> None:
    """The tests and sessions that a row names exist, and are long if it says so."""
    named = TEST.findall(tests)
    assert bool(named) != (UNCOVERED in tests), f"row {row} names a test, or says that there is none"
    assert tests.count("tests/") == len(named), f"row {row} has a reference that is no test"
    for path, name in named:
        source = (ROOT / path).read_text()
        assert re.search(rf"^(async )?def {name}\(", source, flags=re.MULTILINE), f"{path} has no {name}"
        is_long = re.search(rf"mark\.long\n(@.*\n|    .*\n|\)\n)*(async )?def {name}\(", source) is not None
        assert is_long == (f"{name}` (long)" in tests), f"row {row}: is {name} long?"
    for pattern in QUOTED.findall(TEST.sub("", tests)):
        assert fnmatch.filter(SESSION_NAMES, pattern), f"row {row}: no session is called {pattern}"


@pytest.mark.parametrize(
    ("number", "tests"), ROWS, ids=lambda value: str(value) if type(value) is int else ""
)
def test_a_row_names_tests_that_exist(number: int, tests: str) -> None:
    check_tests(number, tests)


@pytest.mark.parametrize(("name", "tests"), CLASSES, ids=[name for name, _ in CLASSES])
def test_a_class_of_advisories_names_tests_that_exist(name: str, tests: str) -> None:
    check_tests(name, tests)


def test_every_class_of_advisories_has_a_row() -> None:
    assert len({name for name, _ in CLASSES}) == ADVISORY_CLASSES
