"""Compaction replaces files by one that holds all that they held, or leaves them alone and says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars
import pyarrow.parquet
import pytest

from headrace.spark.table.interface import Commit
from headrace.spark.table.layout import file_name
from headrace.spark.table.parquet import ParquetFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(180)


def write(spark: SparkSession, directory: Path, batches: list[str], *, compact: bool = False) -> None:
    """Each batch is the text of a query; the numbers of batches continue from file to file."""
    table = ParquetFormat(spark, str(directory))
    for number, batch in enumerate(batches):
        table.commit(Commit("q", number), table.write(spark.sql(batch), number))
        if compact:
            table.compact()


def compact(spark: SparkSession, directory: Path) -> None:
    """As it happens with the next batch, after a restart."""
    table = ParquetFormat(spark, str(directory))
    table.commit(Commit("q", 1000), [])
    table.compact()


def data_files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.parquet"))


def contents(directory: Path) -> list[dict[str, Any]]:
    """What the files say, each for itself: columns that a file does not have are left out, as are nulls."""
    found: list[dict[str, Any]] = []
    for path in sorted(directory.glob("*.parquet")):
        found += pyarrow.parquet.ParquetFile(path).read().to_pylist()
    return sorted((_without_nulls(row) for row in found), key=lambda row: int(row["id"]))


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _without_nulls(item) for key, item in value.items() if item is not None}


def test_times_have_one_type_in_all_files(spark: SparkSession, tmp_path: Path) -> None:
    """Programs such as polars refuse files in which it differs."""
    rows = [f"SELECT {number} id, timestamp '2026-11-17 12:00:00' at" for number in range(4)]
    write(spark, tmp_path, rows[:3])
    compact(spark, tmp_path)
    table = ParquetFormat(spark, str(tmp_path))
    table.commit(Commit("q", 1001), table.write(spark.sql(rows[3]), 1001))
    assert len(data_files(tmp_path)) == 2
    assert polars.read_parquet(tmp_path / "*.parquet")["id"].sort().to_list() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "batches",
    [
        ["SELECT 1 id", "SELECT 2 id, 'x' extra", "SELECT 3 id, 'y' extra, 1.5D more"],
        ["SELECT 1 id, 'x' old", "SELECT 2 id", "SELECT 3 id, true new"],
        ["SELECT 1 id, struct(1 a) s", "SELECT 2 id, struct(2 a, 'x' b) s", "SELECT 3 id, array(1, 2) l"],
        ["SELECT 1 id, CAST(1.5 AS DECIMAL(12,2)) d", "SELECT 2 id, CAST(12345678.5 AS DECIMAL(15,2)) d"],
    ],
)
def test_no_column_is_lost(spark: SparkSession, tmp_path: Path, batches: list[str]) -> None:
    write(spark, tmp_path, batches)
    before = contents(tmp_path)
    compact(spark, tmp_path)
    assert contents(tmp_path) == before
    assert data_files(tmp_path) == [file_name(0, len(batches) - 1, 0, "parquet")]


@pytest.mark.parametrize(
    "batches",
    [
        ["SELECT 1 id, 1 v", "SELECT 2 id, 'x' v"],
        ["SELECT 1 id, 1 v", "SELECT 2 id, 99999999999L v"],
        ["SELECT 1 id, struct(1 a) v", "SELECT 2 id, 'x' v"],
        ["SELECT 1 id", "SELECT '2' id"],
    ],
)
def test_files_whose_types_conflict_stay(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str], batches: list[str]
) -> None:
    write(spark, tmp_path, batches)
    files, before = data_files(tmp_path), contents(tmp_path)
    capfd.readouterr()
    for _ in range(2):  # also after a restart
        table = ParquetFormat(spark, str(tmp_path))
        table.commit(Commit("q", 1000), [])
        for _ in range(2):
            table.compact()
        lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("headrace: ")]
        assert len(lines) == 1
        assert "stay as they are" in lines[0]
    assert (data_files(tmp_path), contents(tmp_path)) == (files, before)


def test_the_query_continues_with_files_that_cannot_be_merged(spark: SparkSession, tmp_path: Path) -> None:
    batches = [
        "SELECT 1 id, 1 v",
        "SELECT 2 id, 'x' v",
        "SELECT 3 id, 1 v",
        "SELECT 4 id, 1 v",
        "SELECT 5 id",
    ]
    write(spark, tmp_path, batches, compact=True)
    assert [row["id"] for row in contents(tmp_path)] == [1, 2, 3, 4, 5]


def test_a_damaged_file_is_left_alone_with_its_neighbours(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(spark, tmp_path, ["SELECT 1 id", "SELECT 2 id", "SELECT 3 id"])
    files = data_files(tmp_path)
    damaged = tmp_path / files[1]
    damaged.write_bytes(damaged.read_bytes()[:-20])
    (tmp_path / f".{files[1]}.crc").unlink(missing_ok=True)
    compact(spark, tmp_path)
    assert data_files(tmp_path) == files
    assert "stay as they are" in capfd.readouterr().err


def test_a_journal_whose_new_file_is_nowhere_deletes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    write(spark, tmp_path, ["SELECT 1 id", "SELECT 2 id"])
    files = data_files(tmp_path)
    journal = {
        "staged": "_headrace/staging/compaction/gone.parquet",
        "target": "gone.parquet",
        "replaces": files,
    }
    (tmp_path / "_headrace" / "compaction.json").write_text(json.dumps(journal))
    ParquetFormat(spark, str(tmp_path)).commit(Commit("q", 1000), [])
    assert data_files(tmp_path) == files
    assert not (tmp_path / "_headrace" / "compaction.json").exists()
