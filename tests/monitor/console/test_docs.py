"""docs/console.md says what is there: settings, conditions, limits, pictures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.config import load_file
from headrace.config.console import ConsoleOptions
from headrace.monitor.console.login import FAILURES_OF_ADDRESS, WINDOW_SECONDS
from headrace.monitor.console.message_filter import COMPARISONS, parse_filter
from headrace.monitor.console.pages import FOLDER, load_files
from headrace.monitor.console.sessions import IDLE_SECONDS, LONGEST_SECONDS
from headrace.monitor.console.views import messages

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "console.md").read_text()


def test_every_setting_is_documented(tmp_path: Path) -> None:
    table = TEXT[TEXT.index("| setting |") :].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == set(ConsoleOptions.__struct_fields__)
    block = TEXT.split("```\n")[1].split("```")[0]
    (tmp_path / "server.conf").write_text(block)
    options = load_file(str(tmp_path / "server.conf")).options.console
    assert options == ConsoleOptions(read_only=("auditor", "dashboard"), hosts=("mill.example.com",))


def test_every_condition_can_be_read() -> None:
    table = TEXT[TEXT.index("| condition |") :].split("\n\n")[0]
    conditions = [row.split("`")[1] for row in table.splitlines()[2:]]
    assert len(conditions) > 5
    for condition in conditions:
        parse_filter(condition)
    assert all(f"`{sign}`" in TEXT or f" {sign} " in TEXT for sign in COMPARISONS if sign not in ("==", "~"))


def test_the_limits_are_those_of_the_code() -> None:
    assert (messages.MAX_MESSAGES_READ, messages.MAX_SEQUENCES_PASSED) == (20_000, 1_000_000)
    assert messages.FILTERED_BYTES == 1024 * 1024
    assert (IDLE_SECONDS, LONGEST_SECONDS) == (3600, 12 * 3600)
    assert (FAILURES_OF_ADDRESS, WINDOW_SECONDS) == (5, 60)


def test_pictures_are_there_and_small() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\((\S+)\)", TEXT)
    assert len(pictures) == 3
    for picture in pictures:
        assert 10_000 < (DOCS / picture).stat().st_size < 150_000


@pytest.mark.parametrize("name", sorted(load_files()))
def test_the_page_loads_nothing_from_elsewhere(name: str) -> None:
    """Nor is markup parsed anywhere, or code made of text."""
    text = (FOLDER / name).read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text)
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<script>|\sstyle=|\son\w+=\"", text)
