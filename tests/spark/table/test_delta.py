"""What is special about Delta: its log, several writers at once, and the figures of columns."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.errors import UsageError
from headrace.spark.failure import SparkError
from headrace.spark.table.delta import compaction
from headrace.spark.table.delta.table import DeltaFormat
from headrace.spark.table.files import Files, library_uri
from headrace.spark.table.interface import Commit, StreamPosition, TableBusy, TableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(180)


def rows_of(spark: SparkSession, *queries: str) -> DataFrame:
    return spark.sql(" UNION ALL ".join(queries))


def committed(batch: int, first: int, end: int, query: str = "q") -> Commit:
    """Of a batch that holds the messages from `first` up to, and without, `end`."""
    return Commit(
        query,
        batch,
        {"S": StreamPosition(end, 7)},
        rows=end - first,
        starts={"S": StreamPosition(first, 7)},
    )


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> DeltaFormat:
    made = DeltaFormat(spark, str(tmp_path / "table"), streams=("S",))
    made.create(spark.range(1).schema, ())
    return made


def append(table: DeltaFormat, spark: SparkSession, batch: int, *, query: str = "q", size: int = 10) -> None:
    first = batch * size
    files = table.write(spark.range(first, first + size, 1, 2), batch)
    table.commit(committed(batch, first, first + size, query), files)


def ids(table: DeltaFormat) -> list[int]:
    """As deltalake, polars and Spark read them, which must be the same."""
    found = sorted(DeltaTable(table.directory).to_pyarrow_table()["id"].to_pylist())
    assert sorted(polars.read_delta(table.directory)["id"].to_list()) == found
    assert sorted(row["id"] for row in table.read(table._spark).collect()) == found
    return found


def test_positions_outlive_the_entries_of_the_log(spark: SparkSession, table: DeltaFormat) -> None:
    append(table, spark, 0)
    append(table, spark, 1)
    DeltaTable(table.directory).create_checkpoint()
    for entry in (Path(table.directory) / "_delta_log").glob("*.json"):
        entry.unlink()
    again = DeltaFormat(spark, table.directory, streams=("S",))
    latest = again.latest()
    assert latest is not None
    assert (latest.positions["S"], again.last_batch("q")) == (StreamPosition(20, 7), 1)


def test_two_queries_that_commit_at_once_do_not_both_succeed(
    spark: SparkSession, table: DeltaFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(table, spark, 0)
    other = DeltaFormat(spark, table.directory, streams=("S",))
    mine, theirs = table.write(spark.range(10, 20), 1), other.write(spark.range(10, 20), 0)
    properties = table._properties

    def overtaken(*given: Any) -> Any:
        """The other one commits between the check and the commit of this one."""
        monkeypatch.setattr(table, "_properties", properties)
        other.commit(committed(0, 10, 20, "other"), theirs)
        return properties(*given)

    monkeypatch.setattr(table, "_properties", overtaken)
    with pytest.raises(TableBusy, match="another query"):
        table.commit(committed(1, 10, 20), mine)
    assert ids(table) == list(range(20))


def test_an_append_of_another_program_is_no_conflict(
    spark: SparkSession, table: DeltaFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import write_deltalake

    append(table, spark, 0)
    files = table.write(spark.range(10, 20), 1)
    properties = table._properties

    def overtaken(*given: Any) -> Any:
        monkeypatch.setattr(table, "_properties", properties)
        write_deltalake(table.directory, pa.table({"id": pa.array([100, 101])}), mode="append")
        DeltaTable(table.directory).optimize.compact()
        return properties(*given)

    monkeypatch.setattr(table, "_properties", overtaken)
    table.commit(committed(1, 10, 20), files)
    assert ids(table) == [*range(20), 100, 101]


def test_columns_are_added_and_numbers_widened(spark: SparkSession, tmp_path: Path) -> None:
    table = DeltaFormat(spark, str(tmp_path / "table"))
    rows = spark.sql("SELECT 1 id, 1.5F f, struct(1 a) s, CAST(1.5 AS DECIMAL(5,2)) d, 'x' p")
    table.create(rows.schema, ["p"])
    table.commit(committed(0, 0, 1), table.write(rows, 0))
    before = table.version()
    more = spark.sql(
        "SELECT 99999999999L id, 2.5D f, struct(1 a, 'n' b) s, CAST(7 AS DECIMAL(9,2)) d, 'y' p, 'new' n"
    )
    table.evolve(more.schema)
    table.evolve(more.schema)
    assert table.version() == before + 1
    table.commit(committed(1, 1, 2), table.write(more, 1))
    found = [row.asDict(recursive=True) for row in table.read(spark).orderBy("id").collect()]
    first = {"id": 1, "f": 1.5, "s": {"a": 1, "b": None}, "d": Decimal("1.50"), "p": "x", "n": None}
    second = {
        "id": 99999999999,
        "f": 2.5,
        "s": {"a": 1, "b": "n"},
        "d": Decimal("7.00"),
        "p": "y",
        "n": "new",
    }
    assert found == [first, second]
    assert polars.read_delta(table.directory).sort("id").to_dicts() == found
    assert table.read(spark, before).columns == ["id", "f", "s", "d", "p"]
    table.compact()
    assert polars.read_delta(table.directory).sort("id").to_dicts() == found


def test_a_type_that_delta_does_not_have_is_named(spark: SparkSession, tmp_path: Path) -> None:
    table = DeltaFormat(spark, str(tmp_path / "table"))
    with pytest.raises(UsageError, match="cannot hold the column i: interval year to month"):
        table.create(spark.sql("SELECT make_ym_interval(1, 2) i").schema, ())
    assert not (tmp_path / "table" / "_delta_log").exists()


def test_figures_of_columns_let_readers_skip_files_and_never_too_many(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = DeltaFormat(spark, str(tmp_path / "table"))
    rows = spark.sql(
        "SELECT id, timestamp_micros(id) t, repeat('ü', 100) || id s, CAST(id AS DOUBLE) d, id % 2 = 0 b, "
        "CAST(id AS DECIMAL(38, 2)) n, date_add(DATE'2026-01-01', CAST(id AS INT)) day, "
        "CAST(NULL AS STRING) z, encode(string(id), 'utf-8') bin, timestamp_ntz'2026-01-01' ntz "
        "FROM range(10)"
    )
    table.create(rows.schema, ())
    table.commit(committed(0, 0, 10), table.write(rows.coalesce(1), 0))
    entry = (tmp_path / "table" / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    stats = json.loads(next(json.loads(line)["add"]["stats"] for line in entry if '"add"' in line))
    assert (stats["minValues"]["id"], stats["maxValues"]["id"], stats["nullCount"]["z"]) == (0, 9, 10)
    frame = polars.scan_delta(table.directory)
    for condition in (
        "id = 9",
        "n = 9.00",
        "s LIKE 'ü%'",
        "NOT b",
        "d >= 9",
        "t >= '1970-01-01'",
        "z IS NULL",
    ):
        assert table.read(spark).where(condition).count() > 0
    assert frame.filter(polars.col("id") == 9).collect().height == 1
    assert len(DeltaTable(table.directory).to_pyarrow_table(filters=[("id", "=", 9)])) == 1
    found = DeltaTable(table.directory).to_pyarrow_table(
        filters=[("t", "=", datetime.fromtimestamp(0, UTC).replace(microsecond=9))]
    )
    assert found["id"].to_pylist() == [9]


@pytest.mark.parametrize(
    ("root", "uri"),
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("s3a://bucket/t", "s3://bucket/t"),
        ("gs://bucket/t", "gs://bucket/t"),
    ],
)
def test_the_library_gets_the_address_in_its_own_spelling(root: str, uri: str) -> None:
    assert library_uri(root) == uri


def test_two_compactions_at_once_keep_every_row_once(spark: SparkSession, table: DeltaFormat) -> None:
    """The library's own one would double them."""
    for batch in range(3):
        append(table, spark, batch)
    slow = DeltaFormat(spark, table.directory)
    write = compaction._merge

    def overtaken(*given: Any) -> Any:
        new = write(*given)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compaction, "_merge", write)
            assert table.compact().removed == 6
            append(table, spark, 3)
        return new

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "_merge", overtaken)
        assert slow.compact().removed == 0
    assert ids(table) == list(range(40))


def test_a_batch_that_comes_during_a_compaction_stays(spark: SparkSession, table: DeltaFormat) -> None:
    for batch in range(3):
        append(table, spark, batch)
    slow = DeltaFormat(spark, table.directory)
    write = compaction._merge

    def overtaken(*given: Any) -> Any:
        append(table, spark, 3)
        return write(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "_merge", overtaken)
        assert slow.compact().removed == 6
    assert ids(table) == list(range(40))
    assert table.versions()[0].operation == "COMPACT"


def test_a_file_that_was_compacted_is_not_replaced(spark: SparkSession, table: DeltaFormat) -> None:
    append(table, spark, 0)
    files = table.files()
    table.compact()
    with pytest.raises(TableBusy, match="were compacted meanwhile"):
        table.replace(Commit("retry", 1), files, [])
    assert ids(table) == list(range(10))


def test_a_damaged_log_is_reported_in_one_line(spark: SparkSession, table: DeltaFormat) -> None:
    append(table, spark, 0)
    (Path(table.directory) / "_delta_log" / f"{0:020d}.json").write_text("{")
    with pytest.raises(TableError, match="cannot use the Delta table") as raised:
        DeltaFormat(spark, table.directory).version()
    assert "\n" not in str(raised.value)


def test_a_store_that_does_not_answer_is_reported_in_one_line(spark: SparkSession) -> None:
    options = {"endpoint_url": "http://127.0.0.1:1", "allow_http": "true", "max_retries": "0", "region": "x"}
    options |= {"access_key_id": "a", "secret_access_key": "b", "retry_timeout": "1s"}
    table = DeltaFormat(spark, "/somewhere", storage_options=options)
    table._uri = "s3://bucket/table"  # Spark itself has no client for it here
    with pytest.raises(TableError, match="cannot use the Delta table in /somewhere") as raised:
        table.version()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("directory", ["s3a://bucket/table", "nothing://bucket/table"])
def test_a_store_whose_jar_is_missing_is_reported_with_the_way_out(
    spark: SparkSession, directory: str
) -> None:
    with pytest.raises(SparkError, match=f"cannot use the directory {directory}: Spark has no file system"):
        Files(spark, directory)
