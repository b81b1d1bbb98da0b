"""docs/commands-more.md: its examples, run in order, print what is shown, on both servers."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.more.conftest import Broker

TEXT = (Path(__file__).parents[3] / "docs" / "commands-more.md").read_text()
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
MONITOR = "http://127.0.0.1:8222"
# What is different each time: times, durations, sizes, thresholds, and what a server is called and uses.
CHANGING = re.compile(
    r"""\d{4}-\d\d-\d\d\ \d\d:\d\d:\d\d | \b[\d.]+(?:m|µ|n)?s\b | \b[\d.,]+\ (?:B|KiB|MiB)\b | \b\d+B\b
    | ;[\d.]+ | N[A-Z2-7]{55} | 127\.0\.0\.1:\d+
    | (?:CPU|CPU:|Memory:|Msgs:|Bytes:|Msgs/Sec:|Bytes/Sec:)\ \S+
    | (?:cpu|mem|connections|subscriptions|bytes)=\S+""",
    re.VERBOSE,
)


def unchanging(text: str) -> list[str]:
    """The lines without what is different each time; columns may have another width then."""
    lines = (re.sub(r"  +", "  ", CHANGING.sub("…", line)).strip() for line in text.splitlines())
    return [line for line in lines if line]


def changed_for_tests(arguments: list[str], broker: Broker) -> list[str]:
    """The monitor port is another one, and how fast the machine is must not count."""
    if arguments[0] == "top":
        return ["--monitor", broker.monitor]
    if arguments[:2] == ["check", "connection"]:
        return [
            f"--{what}-{level}=1h" for what in ("connect", "rtt", "req") for level in ("warn", "critical")
        ]
    return []


def test_the_examples(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "greeting.txt").write_text("Hello, Anna\n")
    ran = 0
    for block in BLOCK.findall(TEXT):
        parts = re.split(r"^\$ (.+)\n", block, flags=re.MULTILINE)
        for line, shown in zip(parts[1::2], parts[2::2], strict=True):
            program, *arguments = shlex.split(line.replace(MONITOR, broker.monitor))
            assert program == "headrace"
            result = broker.run(*arguments, *changed_for_tests(arguments, broker))
            assert unchanging(result.text + result.errors) == unchanging(shown), line
            ran += 1
    assert ran > 20
