"""An Iceberg table whose writer is killed at each step of a commit, while a reader polls it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.spark.table.iceberg.catalog_table import CatalogTable
from headrace.spark.table.iceberg.commits import last_batch, latest_commit
from tests.spark.table.iceberg_committer import PER_BATCH, QUERY, STEPS
from tests.spark.table.readers import Reader

pytestmark = pytest.mark.timeout(900)

COMMITTER = [sys.executable, "-m", "tests.spark.table.iceberg_committer"]


def commit_with_kills(directory: Path, fates: list[tuple[str, int]], batches: int) -> None:
    command = [*COMMITTER, str(directory), str(batches)]
    for step, batch in fates:
        done = subprocess.run([*command, step, str(batch)], capture_output=True)
        assert done.returncode == -9, (step, done.stderr[-2000:])
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == 0, done.stderr[-2000:]


def check_every_row_once(directory: Path, batches: int) -> None:
    table = CatalogTable(str(directory)).load()
    found = sorted(table.scan().to_arrow()["seq"].to_pylist())
    assert found == list(range(1, batches * PER_BATCH + 1))
    latest = latest_commit(table)
    assert latest is not None
    assert (last_batch(table, QUERY), latest.positions["S"].next) == (batches - 1, batches * PER_BATCH + 1)


def check_kills(directory: Path, fates: list[tuple[str, int]], batches: int) -> None:
    reader = Reader(directory, "iceberg", PER_BATCH, batches * PER_BATCH)
    with reader.polling():
        commit_with_kills(directory, fates, batches)
        reader.wait_for_reads(len(fates) + 1)
    assert reader.problems == []
    check_every_row_once(directory, batches)


def test_a_writer_that_is_killed_before_or_after_the_catalog_changes_leaves_whole_batches(
    tmp_path: Path,
) -> None:
    check_kills(tmp_path / "table", [("metadata is written", 3), ("the catalog is changed", 4)], 6)


@pytest.mark.long
def test_a_writer_that_is_killed_at_any_step_of_a_commit_leaves_whole_batches(tmp_path: Path) -> None:
    """Each step is tried in a commit that adds files, and in one that replaces them."""
    fates = [(step, 3 * number + more) for number, step in enumerate(STEPS, 1) for more in (0, 1)]
    check_kills(tmp_path / "table", fates, 3 * len(STEPS) + 4)


def test_two_writers_of_the_same_batches_commit_each_once(tmp_path: Path) -> None:
    """As two drivers do that were started with the same checkpoint."""
    batches = 9
    command = [*COMMITTER, str(tmp_path / "table"), str(batches)]
    subprocess.run([*command[:-1], "0"], check=True)  # makes the table
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    for writer in writers:
        _, errors = writer.communicate()
        assert writer.returncode == 0, errors[-2000:]
    check_every_row_once(tmp_path / "table", batches)
