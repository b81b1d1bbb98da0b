"""`headrace bench report`, with a Spark of its own."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from tests.bench.saved_runs import client, save_run
from tests.cli.commands import assert_one_error_line, environment, run, started

pytestmark = pytest.mark.timeout(300)  # Spark on a busy machine


@pytest.mark.slow
def test_the_command_says_what_it_does_and_where_the_report_is(saved: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "headrace",
        "bench",
        "report",
        str(saved),
        "--out",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(tmp_path / "out" / name) for name in ("report.html", "report.md")]
    lines = done.stderr.splitlines()
    assert all(line.startswith("headrace: ") for line in lines), "nothing of Java's or Spark's"
    assert "starting Spark" in lines[0]
    assert any("2 runs of other machines left out" in line for line in lines)
    assert (tmp_path / "out" / "report.html").read_text().endswith("</html>\n")


def java_processes(mark: str) -> list[str]:
    """Command lines of the Javas that have this variable from the command that started them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().decode())
        except OSError:
            continue  # it has ended, or is somebody else's
    return [line for line in found if "SparkSubmit" in line]


@pytest.mark.parametrize("moment", ["java starts", pytest.param("spark computes", marks=pytest.mark.long)])
def test_ctrl_c_ends_at_once_and_leaves_no_java_behind(saved: Path, tmp_path: Path, moment: str) -> None:
    mark = str(uuid.uuid4())
    arguments = ("bench", "report", str(saved), "--out", str(tmp_path))
    with started(*arguments, ready="starting Spark", REPORT_MARK=mark) as command:
        if moment == "java starts":
            wait_until(lambda: bool(java_processes(mark)))
        else:
            wait_until(lambda: "is computing" in command.errors)
        assert command.end() == 130
        said = command.errors.split("\n")  # click ends the line that the terminal has written ^C into
        assert all(line.startswith("headrace: ") for line in said if line), command.errors
    wait_until(lambda: not java_processes(mark))


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_directory_without_runs_is_one_line(tmp_path: Path) -> None:
    assert_one_error_line(run("bench", "report", str(tmp_path)), "no saved runs in", "--save")


def test_a_directory_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    assert_one_error_line(run("bench", "report", str(tmp_path / "none")), "does not exist")


def test_a_file_instead_of_a_directory_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert_one_error_line(run("bench", "report", str(tmp_path / "file")), "is a file")


@pytest.mark.parametrize("content", [b"", b"not Parquet at all", b"PAR1 half a file"])
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "clients-1.parquet").write_bytes(content)
    result = run("bench", "report", str(tmp_path))
    assert_one_error_line(result, "clients-1.parquet is not a saved run")


def test_parquet_of_something_else_is_one_line(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"run_id": ["x"], "colour": ["red"]}), tmp_path / "clients-1.parquet")
    assert_one_error_line(run("bench", "report", str(tmp_path)), "it has no column started, workload")


def test_a_missing_column_of_slices_is_one_line(tmp_path: Path) -> None:
    save_run(tmp_path, "1", [client("pub", 1, 1.0)], workload="latency", slices=[[1.0]])
    path = tmp_path / "slices-1.parquet"
    parquet.write_table(parquet.read_table(path).drop_columns(["max_us"]), path)
    assert_one_error_line(
        run("bench", "report", str(tmp_path)), "slices-1.parquet", "it has no column max_us"
    )


def test_a_column_of_another_type_is_one_line(tmp_path: Path) -> None:
    save_run(tmp_path, "1", [client("pub", 1, 1.0)])
    path = tmp_path / "clients-1.parquet"
    table = parquet.read_table(path)
    place = table.schema.get_field_index("num_msgs")
    parquet.write_table(table.set_column(place, "num_msgs", pyarrow.array(["many"])), path)
    assert_one_error_line(run("bench", "report", str(tmp_path)), "column num_msgs is string, not int64")
