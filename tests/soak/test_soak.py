"""A short soak as a process; one in which somebody interferes, which has to be noticed; and the page."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from tests.browser import browse
from tests.soak.findings import KINDS
from tests.soak.page import write_page
from tests.soak.record import Fault, Finding, Record, Sample

ROOT = Path(__file__).parents[2]
SECONDS = 280.0

pytestmark = pytest.mark.timeout(SECONDS + 20)  # eight clients start on a busy machine


@contextmanager
def soak(page: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A run with the seed 7. It ends with the test, and with it all its processes."""
    command = [sys.executable, "-u", "-m", "tests.soak", "--seed", "7", "--page", str(page), *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.long
def test_a_short_soak_finds_nothing_wrong(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    faults = ("--faults", "kill,SIGSTOP,no descriptors,disk full")
    with soak(page, "--minutes", "0.2", "--work", "2", *faults) as process:
        output, _ = process.communicate(timeout=SECONDS)
    print(output)
    assert process.returncode == 0, output
    assert "Nothing is wrong" in output
    shown, console, requested = browse(page, tmp_path)
    assert "Nothing is wrong" in shown.text
    assert "CONSOLE" not in console
    assert [url for url in requested if not url.startswith(("file:", "data:"))] == []


def test_interference_is_noticed_and_ctrl_c_ends_with_a_report(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    lines = []
    with soak(page, "--minutes", "10", "--work", "1", "--faults", "interference") as process:
        assert process.stdout is not None
        for line in process.stdout:  # the first progress after a check that has found something
            lines.append(line)
            if " wrong" in line and " 0 wrong" not in line:
                break
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=SECONDS)
    output = "".join(lines) + rest
    assert process.returncode == 1, output
    assert "Something is wrong" in rest, output
    text = page.read_text()
    assert "SMALL: small-" in text, "a message that was deleted behind the client's back"
    assert "forged" in text, "a message that no client has published"
    for kind in ("lost", "altered"):
        assert f"<td>{kind}</td>" in text


def record_of(seconds: int) -> Record:
    """A run with some of everything."""
    record = Record(seed=7)
    for second in range(1, seconds):
        vitals = (50e6 + second * 1e4, 40 + second % 7, 5, 20e6 + second * 1e5)
        record.samples.append(Sample(second, *vitals, second * 300, second * 500, second * 900))
    for what in record.latencies:
        record.latencies[what] = [(n / 10, 0.001 + (n % 97) / 1e4) for n in range(seconds * 10)]
    for start, name in zip(range(5, seconds, 10), cycle(["kill", "disk full", "SIGSTOP"]), strict=False):
        record.faults.append(Fault(name, start, start + 2))
    record.counts.update(acknowledged=seconds * 300, checked=seconds * 900, delivered=seconds * 500)
    record.lives = 3
    return record


@pytest.mark.parametrize("seconds", [60, 3600])
def test_a_browser_shows_the_charts(tmp_path: Path, seconds: int) -> None:
    record = record_of(seconds)
    write_page(record, tmp_path / "report.html")
    page, console, requested = browse(tmp_path / "report.html", tmp_path)
    assert page.tags.count("svg") == 8
    assert "Nothing is wrong" in page.text
    for text in ("acknowledged", *KINDS, "Memory of the server", "fault: disk full", "p99"):
        assert text in page.text
    assert "script" not in page.tags
    assert "CONSOLE" not in console
    assert [url for url in requested if not url.startswith(("file:", "data:"))] == []
    assert (tmp_path / "report.html").stat().st_size < 2_000_000


def test_what_is_wrong_is_at_the_top_and_in_a_table(tmp_path: Path) -> None:
    record = record_of(60)
    record.found.update(lost=2)
    record.findings = [Finding(12.0, "small", "lost", f"SMALL: small-{n} on S.<1>") for n in (3, 4)]
    write_page(record, tmp_path / "report.html")
    page, _, _ = browse(tmp_path / "report.html", tmp_path)
    assert "Something is wrong: 2 lost." in page.text
    assert "SMALL: small-3 on S.<1>" in page.text


def test_a_run_that_ended_before_anything_was_sampled_has_a_page(tmp_path: Path) -> None:
    record = Record(seed=1)
    record.found.update(died=1)
    record.findings.append(Finding(0.5, "supervisor", "died", "the server did not start: exit code 1"))
    write_page(record, tmp_path / "report.html")
    assert "the server did not start" in (tmp_path / "report.html").read_text()
