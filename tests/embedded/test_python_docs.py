"""docs/python.md: its programs print what is shown, its tests pass, its tables name what exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import Server
from headrace.embedded.settings import KEYWORDS

pytest_plugins = ["pytester"]

TEXT = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```)?", TEXT, flags=re.DOTALL | re.MULTILINE)
PROGRAMS = [(program, shown) for program, shown in BLOCKS if not program.startswith("# test_")]
SECONDS = 60


@pytest.mark.parametrize(("program", "shown"), PROGRAMS)
def test_programs_print_what_is_shown(program: str, shown: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS
    )
    assert (done.returncode, done.stderr) == (0, "")
    if shown:
        assert done.stdout == shown
    else:
        assert re.fullmatch(r"<headrace.Server nats://127.0.0.1:\d+>\n", done.stdout)


def test_the_tests_pass(pytester: pytest.Pytester) -> None:
    (tests,) = (block for block, _ in BLOCKS if block.startswith("# test_"))
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(tests)
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_the_table_names_all_of_the_class() -> None:
    members = {name for name in vars(Server) if not name.startswith("_")}
    (table,) = re.findall(
        r"^\| \| \|\n\|---\|---\|\n(\| `Server\(.*?)\n\n", TEXT, flags=re.DOTALL | re.MULTILINE
    )
    rows = [row.split("|")[1] for row in table.splitlines()[1:]]
    assert {name for row in rows for name in re.findall(r"`(\w+)", row)} == members


def test_keywords_exist() -> None:
    (table,) = re.findall(r"^\| keyword \|.*?\n\n", TEXT, flags=re.DOTALL | re.MULTILINE)
    named = {
        name for row in table.splitlines()[2:] if row for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    assert named - {"config"} <= KEYWORDS
    assert {"token", "user", "password", "users"} <= KEYWORDS


def test_every_fixture_is_documented() -> None:
    from headrace import pytest_plugin

    fixtures = {name for name in vars(pytest_plugin) if name.startswith("headrace_")}
    assert len(fixtures) == 5
    assert {name for name in fixtures if f"| `{name}` |" not in TEXT} == set()
