"""The demo in a short form, as a process: server, feed, pipeline on Spark, kill -9, reconciliation, page.

What it leaves is then tampered with, to show that the reconciliation would notice.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from tests.cli.commands import environment

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "examples.demo"]
SECONDS = 550.0

pytestmark = pytest.mark.timeout(SECONDS + 50)  # Spark starts twice, on a busy machine


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def processes_of(directory: Path) -> list[str]:
    """Command lines that name the directory: server and pipeline do."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(directory) in line:
                found.append(line)
    return found


def wait_for_processes(directory: Path, is_so: Callable[[int], bool]) -> None:
    """Of those that our processes started, one may begin, or be gone, a moment later."""
    deadline = time.monotonic() + 30
    while not is_so(len(found := processes_of(directory))):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A demo that has run: its directory, and what it printed."""
    directory = tmp_path_factory.mktemp("demo") / "run"
    done = demo("--seconds", "9", "--rate", "500", "--directory", str(directory))
    assert done.returncode == 0, done.stdout + done.stderr
    return directory, done.stdout


@pytest.mark.slow
def test_everything_adds_up_through_a_kill(finished: tuple[Path, str]) -> None:
    directory, printed = finished
    assert "Everything adds up: nothing is lost, nothing is duplicated." in printed
    for event in "kill -9", "It is back", "The live view has":
        assert printed.count(f">>> {event}") == 1
    lines = {line.split("  ")[1]: line.split()[-5:] for line in printed.splitlines() if line.startswith("  ")}
    for name in "orders published", "orders stored":
        assert lines[name] == ["4,500", "4,500", "0", "0", "0"]
    assert lines["orders landed"] == ["4,498", "4,498", "0", "0", "0"]
    assert lines["dead letters"] == ["2", "2", "0", "0", "0"]
    for name in "orders in the live view", "alerts received", "rows of revenue":
        assert lines[name][0] == lines[name][1] != "0"
        assert lines[name][2:] == ["0", "0", "0"]
    assert (directory / "report.html").read_text().startswith("<!doctype html>")
    wait_for_processes(directory, lambda count: count == 0)


def copy_of(finished: tuple[Path, str], to: Path) -> Path:
    return Path(shutil.copytree(finished[0], to / "copy"))


@pytest.mark.slow
def test_what_is_left_can_be_checked_again(finished: tuple[Path, str], tmp_path: Path) -> None:
    done = demo("--check", "--directory", str(copy_of(finished, tmp_path)))
    assert done.returncode == 0, done.stderr
    assert "Everything adds up" in done.stdout


def table_of(directory: Path, name: str) -> DeltaTable:
    return DeltaTable(str(directory / "shop" / "data" / "tables" / name))


def lose_a_row(directory: Path) -> None:
    table_of(directory, "orders").delete("id = 7")


def copy_a_row(directory: Path) -> None:
    table = table_of(directory, "orders")
    write_deltalake(table, table.to_pyarrow_table(filters=[("id", "=", 7)]), mode="append")


def lose_a_dead_letter(directory: Path) -> None:
    table_of(directory, "orders/_headrace/dead-letters").delete("seq = 1001")


def alter_a_sum(directory: Path) -> None:
    table = table_of(directory, "revenue")
    country, amount = (table.to_pyarrow_table().column(name)[0].as_py() for name in ("country", "revenue"))
    where = f"country = '{country}' AND revenue = {amount}"
    table.update(updates={"revenue": "revenue + 0.01"}, predicate=where)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tamper", "told"),
    [
        (lose_a_row, "orders landed: 1 lost, 0 duplicate, 0 wrong"),
        (copy_a_row, "orders landed: 0 lost, 1 duplicate, 0 wrong"),
        (lose_a_dead_letter, "dead letters: 1 lost, 0 duplicate, 0 wrong"),
        (alter_a_sum, "rows of revenue: 1 lost, 0 duplicate, 1 wrong"),
    ],
)
def test_what_does_not_add_up_is_reported(
    finished: tuple[Path, str], tmp_path: Path, tamper: Callable[[Path], None], told: str
) -> None:
    directory = copy_of(finished, tmp_path)
    tamper(directory)
    done = demo("--check", "--directory", str(directory))
    assert done.returncode == 1
    assert f"FAILED: It does not add up. {told}." in done.stderr
    assert "Everything adds up" not in done.stdout


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    done = demo("--directory", str(tmp_path))
    assert done.returncode == 1
    assert "holds something other than a demo" in done.stderr
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.parametrize(
    "moment", ["Spark takes some seconds", pytest.param("published/s", marks=pytest.mark.long)]
)
def test_ctrl_c_stops_everything(tmp_path: Path, moment: str) -> None:
    directory = tmp_path / "run"
    with (tmp_path / "screen").open("wb") as screen:
        process = subprocess.Popen(
            [*COMMAND, "--directory", str(directory)],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=screen,
            stderr=screen,
        )
    printed = ""
    while moment not in printed:
        assert process.poll() is None, printed
        time.sleep(0.1)
        printed = (tmp_path / "screen").read_text()
    wait_for_processes(directory, lambda count: count >= 3)  # server, pipeline and ourselves
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 130
    assert "Stopped, with everything that was started." in (tmp_path / "screen").read_text()
    assert "Traceback" not in (tmp_path / "screen").read_text()
    wait_for_processes(directory, lambda count: count == 0)
