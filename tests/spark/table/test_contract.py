"""What every format of a table promises, and with it what plain Parquet does not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.parquet
import pytest

from headrace.errors import UsageError
from headrace.spark.payload.ddl import parse_ddl
from headrace.spark.table.description import Description
from headrace.spark.table.interface import Commit, Settings, StreamPosition, TableBusy
from headrace.spark.table.preparing import prepare
from tests.spark.table.formats import append, committed, open_format, read_elsewhere, read_everywhere

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(400)

ATOMIC = ("delta", "iceberg")
FORMATS = (*ATOMIC, "parquet")


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=ATOMIC)
def atomic(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Any:
    """An empty table with one column, `id`, of a format that has versions."""
    table = open_format(spark, request.param, tmp_path / "table")
    assert not table.exists()
    table.create(spark.range(1).schema, ())
    assert table.exists()
    return table


def ten(spark: SparkSession, batch: int) -> Any:
    return spark.range(batch * 10, batch * 10 + 10, 1, 2)


def append_ten(table: Any, spark: SparkSession, batch: int, query: str = "q") -> None:
    append(table, batch, ten(spark, batch), batch * 10, batch * 10 + 10, query)


def test_a_table_holds_what_was_committed(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = open_format(spark, kind, tmp_path / "table")
    table.create(spark.range(1).schema, ())
    assert table.read(spark).count() == 0
    assert (table.latest(), table.last_batch("q")) == (None, None)
    table.write(ten(spark, 7), 7)  # was interrupted before its commit
    for batch in range(2):
        append_ten(table, spark, batch)
    again = open_format(spark, kind, tmp_path / "table")
    assert again.exists()
    assert read_everywhere(spark, again) == list(range(20))
    assert (again.last_batch("q"), again.last_batch("other")) == (1, None)
    assert again.latest() == Commit("q", 1, {"S": StreamPosition(20, 7)}, rows=10)
    assert sum(file.rows for file in again.files()) == 20


def test_a_batch_that_is_repeated_is_in_the_table_once(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = open_format(spark, kind, tmp_path / "table")
    table.create(spark.range(1).schema, ())
    append_ten(table, spark, 0)
    append_ten(table, spark, 1)
    version = table.version()
    again = open_format(spark, kind, tmp_path / "table")
    append_ten(again, spark, 1)
    assert (read_everywhere(spark, table), again.version()) == (list(range(20)), version)


def test_a_batch_without_rows_moves_the_positions(atomic: Any, spark: SparkSession) -> None:
    append_ten(atomic, spark, 0)
    atomic.commit(committed(1, 10, 25), atomic.write(spark.range(0), 1))
    assert atomic.latest().positions["S"].next == 25
    assert (atomic.last_batch("q"), read_everywhere(spark, atomic)) == (1, list(range(10)))


def test_older_versions_stay_readable_and_the_history_names_their_batches(
    atomic: Any, spark: SparkSession
) -> None:
    empty = atomic.version()
    append_ten(atomic, spark, 0)
    append_ten(atomic, spark, 1)
    atomic.compact()
    merged, second, first, *_ = atomic.versions()
    assert (merged.commit, merged.version) == (None, atomic.version())
    assert second.commit == Commit("q", 1, {"S": StreamPosition(20, 7)}, rows=10)
    assert empty < first.version < second.version < merged.version
    assert sorted(row.id for row in atomic.read(spark, first.version).collect()) == list(range(10))
    assert atomic.read(spark, empty).count() == 0
    assert atomic.read(spark, merged.time).count() == 20
    assert len(atomic.files(second.version)) == 4
    with pytest.raises(UsageError, match="has no version"):
        atomic.read(spark, datetime(2000, 1, 1, tzinfo=UTC))
    assert read_everywhere(spark, atomic) == list(range(20))
    with pytest.raises(UsageError, match="has no version 99") as raised:
        atomic.read(spark, 99)
    assert "ernel" not in str(raised.value)  # what the library says about its own parts


def test_another_query_must_begin_where_the_table_ends(
    atomic: Any, spark: SparkSession, tmp_path: Path
) -> None:
    append_ten(atomic, spark, 0)
    other = open_format(spark, atomic.name, tmp_path / "table")
    with pytest.raises(TableBusy, match=r"holds batch 0 of another query \(q\)") as raised:
        append(other, 0, spark.range(5), 0, 5, "other")
    assert raised.value.hint
    append(other, 0, spark.range(10, 15), 10, 15, "other")
    with pytest.raises(TableBusy, match="another query"):
        append_ten(atomic, spark, 1)
    assert read_everywhere(spark, atomic) == list(range(15))


def test_columns_are_added_and_numbers_widened(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = open_format(spark, kind, tmp_path / "table")
    rows = spark.sql("SELECT 1 id, struct(1 a) s, array(struct(1 x)) l, map('k', struct(1 y)) m")
    table.create(rows.schema, ())
    append(table, 0, rows, 0, 1)
    before = table.version()
    more = spark.sql(
        "SELECT 2147483648L id, struct(1 a, 'n' b) s, array(struct(1 x, 2 z)) l, "
        "map('k', struct(1 y, 'w' w)) m, 'n' n"
    )
    table.evolve(more.schema)
    table.evolve(more.schema)
    append(table, 1, more, 1, 2)
    found = {row.id: row.asDict(recursive=True) for row in table.read(spark).collect()}
    last = 2147483648
    old = {
        "id": 1,
        "s": {"a": 1, "b": None},
        "l": [{"x": 1, "z": None}],
        "m": {"k": {"y": 1, "w": None}},
        "n": None,
    }
    new = {
        "id": last,
        "s": {"a": 1, "b": "n"},
        "l": [{"x": 1, "z": 2}],
        "m": {"k": {"y": 1, "w": "w"}},
        "n": "n",
    }
    assert found == {1: old, last: new}
    if kind == "parquet":
        assert {
            row["id"] for row in pyarrow.parquet.read_table(table.directory, columns=["id"]).to_pylist()
        } == {1, last}
        return
    for program, others in read_elsewhere(table).items():
        assert {row["id"]: row["s"]["b"] for row in others} == {1: None, last: "n"}, program
    assert table.read(spark, before).columns == ["id", "s", "l", "m"]
    table.compact()
    assert {row.id: row.asDict(recursive=True) for row in table.read(spark).collect()} == found
    read_everywhere(spark, table)


def test_types_keep_their_values(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    rows = spark.sql(
        "SELECT 9007199254740993L id, CAST(1 AS TINYINT) i8, CAST(2 AS SMALLINT) i16, 3 i32, 1.5F f, 2.5D d, "
        "true b, 'ü' s, X'00ff' raw, CAST('12345678901234567890.123456789' AS DECIMAL(38, 9)) n, "
        "DATE'0001-01-01' day, TIMESTAMP'2026-11-16 23:30:00.123456+05:00' t, "
        "TIMESTAMP_NTZ'2026-11-16 23:30:00.123456' wall, named_struct('a', array(1L, NULL)) nested, "
        "map('k', CAST(NULL AS STRING)) m, CAST(NULL AS INT) nothing "
        "UNION ALL SELECT -9223372036854775808L" + ", NULL" * 15
    )
    table = open_format(spark, kind, tmp_path / "table")
    table.create(rows.schema, ())
    append(table, 0, rows, 0, 2)
    expected = {row.id: row.asDict(recursive=True) for row in rows.collect()}
    assert {row.id: row.asDict(recursive=True) for row in table.read(spark).collect()} == expected
    for program, found in read_elsewhere(table).items():
        values = next(row for row in found if row["id"] == 9007199254740993)
        assert values["n"] == Decimal("12345678901234567890.123456789"), program
        assert values["t"].astimezone(UTC) == datetime(2026, 11, 16, 18, 30, 0, 123456, UTC), program
        assert values["wall"] == datetime(2026, 11, 16, 23, 30, 0, 123456), program
        assert (values["day"], values["raw"], values["nested"]) == (
            date(1, 1, 1),
            b"\x00\xff",
            {"a": [1, None]},
        ), program


def test_a_table_may_have_200_columns(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    rows = spark.range(3).selectExpr("id", *(f"id * {number} AS c{number}" for number in range(199)))
    table = open_format(spark, kind, tmp_path / "table")
    table.create(rows.schema, ())
    append(table, 0, rows, 0, 3)
    assert len(table.schema()) == 200
    assert table.read(spark).columns == rows.columns
    for program, found in read_elsewhere(table).items():
        assert sorted(row["c198"] for row in found) == [0, 198, 396], program


def test_partition_values_of_any_kind_are_read_back(atomic: Any, spark: SparkSession, tmp_path: Path) -> None:
    table = open_format(spark, atomic.name, tmp_path / "partitioned", ("day", "kind"))
    values = ["a/b", "ü x + 50%", "k=v %2F", "#?[a]{b}", "x" * 90, None]
    pairs = [(number, date(2026, 11, 1 + number % 2), value) for number, value in enumerate(values)]
    rows = spark.createDataFrame(pairs, "id long, day date, kind string")
    table.create(rows.schema, ("day", "kind"))
    append(table, 0, rows, 0, len(values))
    append(table, 1, rows.selectExpr("id + 100 AS id", "day", "kind"), len(values), 2 * len(values))
    expected = {(number + more, value) for number, _, value in pairs for more in (0, 100)}
    for _ in range(2):
        assert {(row.id, row.kind) for row in table.read(spark).collect()} == expected
        for program, found in read_elsewhere(table).items():
            assert {(row["id"], row["kind"]) for row in found} == expected, program
        assert table.read(spark).where("kind = 'a/b' AND day = '2026-11-01'").count() == 2
        assert len({tuple(file.partition.items()) for file in table.files()}) == len(values)
        table.compact()
    assert len(table.files()) == len(values)


def test_compaction_expiry_and_orphans(atomic: Any, spark: SparkSession, tmp_path: Path) -> None:
    for batch in range(3):
        append_ten(atomic, spark, batch)
    orphan = atomic.write(spark.range(3), 7)
    merged = atomic.compact()
    assert (merged.removed, merged.added) == (6, 1)
    assert atomic.compact().removed == 0
    assert atomic.expire(3600).files == 0
    assert atomic.remove_orphans(3600) == 0
    expired = atomic.expire(0)
    assert expired.files == 6
    assert read_everywhere(spark, atomic) == list(range(30))
    assert atomic.remove_orphans(0) >= len(orphan)
    assert not any((tmp_path / "table" / file.path).exists() for file in orphan)
    again = open_format(spark, atomic.name, tmp_path / "table")
    assert (again.last_batch("q"), again.latest().positions["S"].next) == (2, 30)
    append_ten(again, spark, 3)
    assert read_everywhere(spark, again) == list(range(40))


def test_an_upsert_keeps_the_latest_row_of_each_key(atomic: Any, spark: SparkSession, tmp_path: Path) -> None:
    table = open_format(spark, atomic.name, tmp_path / "keyed")
    table.create(spark.sql("SELECT 'a' k, 1L seq, 'v' v").schema, ())

    def upsert(
        batch: int, rows: Sequence[tuple[str, int, str]], deleted: Sequence[tuple[str, int]] = ()
    ) -> None:
        changed = pyarrow.Table.from_pylist(
            [dict(zip(("k", "seq", "v"), row, strict=True)) for row in rows],
            pyarrow.schema({"k": pyarrow.string(), "seq": pyarrow.int64(), "v": pyarrow.string()}),
        )
        gone = pyarrow.Table.from_pylist(
            [dict(zip(("k", "seq"), row, strict=True)) for row in deleted],
            pyarrow.schema({"k": pyarrow.string(), "seq": pyarrow.int64()}),
        )
        table.upsert(committed(batch, batch, batch + 1), changed, ["k"], gone)

    def rows() -> list[tuple[str, int, str]]:
        found = sorted(tuple(row) for row in table.read(spark).select("k", "seq", "v").collect())
        for program, others in read_elsewhere(table).items():
            assert sorted((row["k"], row["seq"], row["v"]) for row in others) == found, program
        return found

    upsert(0, [("a", 1, "a1"), ("b", 2, "b2"), ("c", 3, "c3")])
    upsert(1, [("a", 4, "a4"), ("d", 5, "d5")], [("b", 6), ("nobody", 7)])
    assert rows() == [("a", 4, "a4"), ("c", 3, "c3"), ("d", 5, "d5")]
    upsert(1, [("a", 9, "repeated")])  # is in the table already
    upsert(2, [("a", 2, "late"), ("c", 3, "again")], [("d", 1)])
    assert rows() == [("a", 4, "a4"), ("c", 3, "c3"), ("d", 5, "d5")]
    upsert(3, [], [("a", 10), ("c", 11), ("d", 12)])
    assert rows() == []
    upsert(4, [("a", 13, "a13")])
    assert rows() == [("a", 13, "a13")]
    assert (table.last_batch("q"), table.latest().positions["S"].next) == (4, 5)


def test_a_plain_parquet_table_with_a_key_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    about = Description(format="parquet", origin="a test", key=("id",))
    with pytest.raises(UsageError, match="cannot keep only the latest row of each key"):
        prepare(spark, str(tmp_path / "table"), about, parse_ddl("id BIGINT, seq BIGINT"), Settings())
    assert not (tmp_path / "table").exists()
