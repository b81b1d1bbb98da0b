"""docs/reliability.md has every row of the fault table, and each names its tests or says that it has none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FAULTS = 49
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
UNCOVERED = "not covered yet"


def rows() -> list[tuple[int, str]]:
    """The number of each row, and its cell with the tests."""
    text = (ROOT / "docs" / "reliability.md").read_text()
    found = re.findall(r"^\| (\d+) \|.*\|$", text, flags=re.MULTILINE)
    lines = [line for line in text.splitlines() if re.match(r"\| \d+ \|", line)]
    assert len(found) == len(lines)
    return [(int(cells[1]), cells[4]) for cells in (line.split("|") for line in lines)]


ROWS = rows()


def test_every_fault_has_one_row() -> None:
    assert [number for number, _ in ROWS] == list(range(1, FAULTS + 1))


@pytest.mark.parametrize(
    ("number", "tests"), ROWS, ids=lambda value: str(value) if type(value) is int else ""
)
def test_a_row_names_tests_that_exist(number: int, tests: str) -> None:
    named = TEST.findall(tests)
    assert bool(named) != (UNCOVERED in tests), f"row {number} names a test, or says that there is none"
    assert tests.count("tests/") == len(named), f"row {number} has a reference that is no test"
    for path, name in named:
        source = (ROOT / path).read_text()
        assert re.search(rf"^(async )?def {name}\(", source, flags=re.MULTILINE), f"{path} has no {name}"
        is_long = re.search(rf"mark\.long\n(@.*\n|    .*\n|\)\n)*(async )?def {name}\(", source) is not None
        assert is_long == (f"{name}` (long)" in tests), f"row {number}: is {name} long?"
