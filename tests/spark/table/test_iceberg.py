"""An Iceberg table: commits that others overtake, maintenance beside them, and what it refuses."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.parquet
import pytest

from headrace.errors import HeadraceError, UsageError
from headrace.spark.failure import in_one_line
from headrace.spark.table.iceberg import catalog_table, compaction
from headrace.spark.table.iceberg import format as iceberg_format
from headrace.spark.table.iceberg.format import IcebergFormat
from headrace.spark.table.interface import TableBusy, TableError
from tests.spark.table.formats import append, committed, open_format, read_elsewhere, read_everywhere

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> IcebergFormat:
    made = IcebergFormat(spark, str(tmp_path / "table"))
    made.create(spark.range(1).schema, ())
    return made


def append_ten(table: Any, spark: SparkSession, batch: int, query: str = "q") -> None:
    append(table, batch, spark.range(batch * 10, batch * 10 + 10, 1, 1), batch * 10, batch * 10 + 10, query)


def overtake(monkeypatch: pytest.MonkeyPatch, table: IcebergFormat, work: Callable[[], object]) -> None:
    """The next change of the table is prepared, then this is done, then the change is committed."""
    change = catalog_table.change

    def overtaken(*given: Any, **options: Any) -> None:
        monkeypatch.setattr(catalog_table, "change", change)
        work()
        change(*given, **options)

    monkeypatch.setattr(catalog_table, "change", overtaken)


def test_two_queries_that_commit_at_once_do_not_both_succeed(
    spark: SparkSession, table: IcebergFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_ten(table, spark, 0)
    other = IcebergFormat(spark, table.directory)
    theirs = other.write(spark.range(10, 20), 0)
    overtake(monkeypatch, table, lambda: other.commit(committed(0, 10, 20, "other"), theirs))
    with pytest.raises(TableBusy, match="another query"):
        append_ten(table, spark, 1)
    assert read_everywhere(spark, table) == list(range(20))


def test_the_same_batch_that_another_driver_commits_first_is_not_repeated(
    spark: SparkSession, table: IcebergFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_ten(table, spark, 0)
    overtake(monkeypatch, table, lambda: append_ten(IcebergFormat(spark, table.directory), spark, 1))
    append_ten(table, spark, 1)
    assert read_everywhere(spark, table) == list(range(20))


def test_a_compaction_an_expiry_a_new_column_and_a_foreign_append_do_not_stop_a_commit(
    spark: SparkSession, table: IcebergFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_ten(table, spark, 0)
    append_ten(table, spark, 1)
    other = IcebergFormat(spark, table.directory)

    def much() -> None:
        assert other.compact().removed == 2
        other.evolve(spark.sql("SELECT 1L id, 'x' more").schema)
        assert other.expire(0).versions == 2
        other.load().append(pyarrow.table({"id": [100], "more": ["foreign"]}))

    overtake(monkeypatch, table, much)
    append_ten(table, spark, 2)
    assert read_everywhere(spark, table) == [*range(30), 100]
    assert {row.more for row in table.read(spark).collect()} == {None, "foreign"}


def test_batches_that_are_appended_during_a_compaction_stay(
    spark: SparkSession, table: IcebergFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_ten(table, spark, 0)
    append_ten(table, spark, 1)
    overtake(monkeypatch, table, lambda: append_ten(IcebergFormat(spark, table.directory), spark, 2))
    merged = table.compact()
    assert (merged.removed, merged.added, len(table.files())) == (2, 1, 2)
    assert read_everywhere(spark, table) == list(range(30))
    assert table.last_batch("q") == 2


def test_a_compaction_gives_up_what_another_has_merged(
    spark: SparkSession, table: IcebergFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_ten(table, spark, 0)
    append_ten(table, spark, 1)
    overtake(monkeypatch, table, lambda: IcebergFormat(spark, table.directory).compact())
    assert table.compact().removed == 0
    assert read_everywhere(spark, table) == list(range(20))
    assert table.remove_orphans(0) >= 1


def test_a_compaction_that_cannot_read_all_rows_changes_nothing(
    spark: SparkSession, table: IcebergFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_ten(table, spark, 0)
    append_ten(table, spark, 1)
    rows_of = table.rows_of
    monkeypatch.setattr(table, "rows_of", lambda *given: rows_of(*given).where("id != 7"))
    version = table.version()
    with pytest.raises(TableError, match="not all rows"):
        table.compact()
    monkeypatch.undo()
    assert (table.version(), read_everywhere(spark, table)) == (version, list(range(20)))


def test_a_compaction_keeps_large_files_and_the_order_of_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.sql("SELECT 'S' stream, id seq, uuid() AS id FROM range(0, 2000, 1, 1) ORDER BY rand()")
    table = IcebergFormat(spark, str(tmp_path / "table"))
    table.create(rows.schema, ())
    append(table, 0, rows.coalesce(1), 0, 1)
    monkeypatch.setattr(compaction, "LARGE_BYTES", 20_000)
    for batch in 1, 2, 3:
        append(table, batch, rows.limit(1), batch, batch + 1)
    large = max(table.files(), key=lambda file: file.size)
    merged = table.compact()
    assert (merged.removed, merged.added) == (3, 1)
    assert large in table.files()
    monkeypatch.undo()
    assert table.compact().removed == 2
    only = table.files()[0]
    sequences = spark.read.parquet(f"{table.directory}/{only.path}").select("seq").toArrow()["seq"]
    assert sequences.to_pylist() == sorted(sequences.to_pylist())


def test_a_writer_that_never_gets_its_turn_says_so(
    spark: SparkSession, table: IcebergFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.exceptions import CommitFailedException

    def refused(*given: Any, **options: Any) -> None:
        raise CommitFailedException("branch main has changed")

    monkeypatch.setattr(catalog_table, "ATTEMPTS", 3)
    monkeypatch.setattr(catalog_table, "change", refused)
    with pytest.raises(TableBusy, match="batch 0 could not be committed: branch main has changed") as raised:
        append_ten(table, spark, 0)
    assert "\n" not in in_one_line(raised.value)


def test_too_many_versions_are_forgotten_by_themselves(
    spark: SparkSession, table: IcebergFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"MOST_SNAPSHOTS": 5, "FEWEST_SNAPSHOTS": 3}.items():
        monkeypatch.setattr(iceberg_format, name, value)
    files = table.write(spark.range(1), 0)
    for batch in range(8):
        table.commit(committed(batch, batch, batch + 1), files if not batch else ())
    assert len(table.versions()) == 8  # they are too young
    monkeypatch.setattr(iceberg_format, "YOUNGEST_SECONDS", 0.0)
    table.commit(committed(8, 8, 9), ())
    assert [info.version for info in table.versions()] == [9, 8, 7]
    assert (table.last_batch("q"), read_everywhere(spark, table)) == (8, [0])
    metadata = Path(table.directory, "metadata")
    assert len(list(metadata.glob("snap-*.avro"))) == 3


def test_expiry_keeps_what_a_tag_names(spark: SparkSession, table: IcebergFormat) -> None:
    append_ten(table, spark, 0)
    append_ten(table, spark, 1)
    tagged = table.load().metadata.snapshots[0].snapshot_id
    table.load().manage_snapshots().create_tag(tagged, "audit").commit()
    table.compact()
    assert table.expire(0).versions == 1
    assert table.read(spark, 1).count() == 10
    assert table.read(spark, tagged).count() == 10
    assert table.remove_orphans(0) == 0
    assert table.load().scan(snapshot_id=tagged).to_arrow().num_rows == 10


def test_orphans_are_what_nothing_refers_to(spark: SparkSession, table: IcebergFormat) -> None:
    append_ten(table, spark, 0)
    left = [Path(table.directory, file.path) for file in table.write(spark.range(3), 1)]
    for name in "00009-left.metadata.json", "left-m0.avro", "snap-1-0-left.avro":
        left.append(Path(table.directory, "metadata", name))
        left[-1].write_text("interrupted")
    assert table.remove_orphans(3600) == 0
    assert table.remove_orphans(0) >= len(left)
    assert not any(path.exists() for path in left)
    assert read_everywhere(spark, table) == list(range(10))
    append_ten(table, spark, 1)
    assert read_everywhere(spark, table) == list(range(20))


def test_a_time_before_the_first_version_is_named(spark: SparkSession, table: IcebergFormat) -> None:
    append_ten(table, spark, 0)
    with pytest.raises(UsageError, match="has no version 2001-01-01"):
        table.read(spark, datetime(2001, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("before", "after"), [("1", "CAST(1 AS DECIMAL(20, 2))"), ("'a'", "1"), ("1L", "1.5D"), ("1", "array(1)")]
)
def test_a_change_that_iceberg_does_not_know_is_refused(
    spark: SparkSession, tmp_path: Path, before: str, after: str
) -> None:
    table = IcebergFormat(spark, str(tmp_path / "table"))
    table.create(spark.sql(f"SELECT {before} AS n, 1 AS other").schema, ())
    with pytest.raises(UsageError, match="cannot change a column") as raised:
        table.evolve(spark.sql(f"SELECT {after} AS n, 1 AS other, 'x' AS added").schema)
    assert "\n" not in in_one_line(raised.value)
    assert table.schema().names == ["n", "other"]


def test_types_that_iceberg_does_not_have_are_named(spark: SparkSession, tmp_path: Path) -> None:
    table = IcebergFormat(spark, str(tmp_path / "table"))
    with pytest.raises(UsageError, match=r"cannot hold the column s\.i of type interval year to month"):
        table.create(spark.sql("SELECT struct(make_ym_interval(1, 2) i) s").schema, ())
    rows = spark.sql("SELECT 1.5D d, TIMESTAMP'2026-01-01' t")
    for name in rows.columns:
        with pytest.raises(UsageError, match=f"cannot be partitioned by {name}"):
            table.create(rows.schema, (name,))
    assert not (tmp_path / "table").exists()


def test_without_pyiceberg_one_line_says_what_to_install(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyiceberg" else find_spec(name)
    )
    with pytest.raises(HeadraceError, match="pyiceberg is not installed") as raised:
        open_format(spark, "iceberg", tmp_path / "table")
    assert "pip install 'headrace[iceberg]'" in in_one_line(raised.value)


def test_what_another_program_did_is_read_or_refused_but_never_misread(
    spark: SparkSession, table: IcebergFormat, tmp_path: Path
) -> None:
    append_ten(table, spark, 0)
    elsewhere = tmp_path / "elsewhere.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"id": [100]}), elsewhere)
    table.load().add_files([str(elsewhere)])
    assert read_everywhere(spark, table) == [*range(10), 100]
    table.load().update_schema().rename_column("id", "number").commit()
    with pytest.raises(TableError, match="another program has renamed the column number"):
        table.read(spark)
    with pytest.raises(TableError, match="another program has renamed"):
        table.compact()


def test_an_empty_text_and_null_are_partitions_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame(
        [(1, ""), (2, None), (3, "_"), (4, "x" * 5000 + "y"), (5, "x" * 5000)], "id long, by_kind string"
    )
    table = IcebergFormat(spark, str(tmp_path / "table"))
    table.create(rows.schema, ("by_kind",))
    short = rows.where("coalesce(length(by_kind), 0) < 5000")
    append(table, 0, short.coalesce(1), 0, 3)
    expected = {row.id: row.by_kind for row in short.collect()}
    assert {row.id: row.by_kind for row in table.read(spark).collect()} == expected
    for program, found in read_elsewhere(table).items():
        assert {row["id"]: row["by_kind"] for row in found} == expected, program
    assert len(table.files()) == 3
    # Parquet's footers do not have values as long as these, and then it is not known what the partition is.
    with pytest.raises(TableError, match="too long to partition by it"):
        append(table, 1, rows.where("id > 3"), 3, 5)
    assert read_everywhere(spark, table) == [1, 2, 3]


def test_upserts_do_what_a_dictionary_does(spark: SparkSession, tmp_path: Path) -> None:
    """Keys of two columns, one of which may be null, and partitions that rows may leave."""
    chance = random.Random(5)
    schema = "region string, id long, seq long, day date, v string"
    table = IcebergFormat(spark, str(tmp_path / "table"))
    table.create(spark.createDataFrame([], schema).schema, ("day",))
    kinds = pyarrow.schema(
        {
            "region": pyarrow.string(),
            "id": pyarrow.int64(),
            "seq": pyarrow.int64(),
            "day": pyarrow.date32(),
            "v": pyarrow.string(),
        }
    )
    model: dict[tuple[str | None, int], dict[str, Any]] = {}
    for batch in range(4):
        rows, deleted = [], []
        for key in chance.sample([(region, number) for region in ("a", None) for number in range(6)], 6):
            seq = chance.randrange(1000)
            change = {"region": key[0], "id": key[1], "seq": seq}
            is_newer = key not in model or seq > model[key]["seq"]
            if chance.random() < 0.3:
                deleted.append(change)
                if is_newer:
                    model.pop(key, None)
            else:
                row = {**change, "day": date(2026, 11, chance.randint(1, 3)), "v": f"{batch}"}
                rows.append(row)
                if is_newer:
                    model[key] = row
        changed = pyarrow.Table.from_pylist(rows, kinds)
        gone = pyarrow.Table.from_pylist(deleted, pyarrow.schema([kinds.field(n) for n in range(3)]))
        table.upsert(committed(batch, batch, batch + 1), changed, ["region", "id"], gone)
        found = {(row.region, row.id): row.asDict() for row in table.read(spark).collect()}
        assert found == model, batch
        for program, others in read_elsewhere(table).items():
            assert {(row["region"], row["id"]): row for row in others} == model, program
        assert table.read(spark).count() == len(model)
        if batch == 2:
            table.compact()


def test_an_upsert_that_is_overtaken_looks_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = IcebergFormat(spark, str(tmp_path / "table"))
    table.create(spark.createDataFrame([], "k string, seq long").schema, ())
    none = pyarrow.table(
        {"k": pyarrow.array([], pyarrow.string()), "seq": pyarrow.array([], pyarrow.int64())}
    )

    def upsert(table: IcebergFormat, batch: int, query: str, **keys: int) -> None:
        rows = pyarrow.table({"k": list(keys), "seq": list(keys.values())})
        commit = committed(batch, batch, batch + 1, query)
        table.upsert(commit, rows, ["k"], none)

    upsert(table, 0, "q", a=1, b=2)
    upsert(table, 1, "q", c=3)
    overtake(monkeypatch, table, lambda: IcebergFormat(spark, table.directory).compact())
    upsert(table, 2, "q", a=5)
    rows = table.read(spark).orderBy("k").collect()
    assert [tuple(row) for row in rows] == [("a", 5), ("b", 2), ("c", 3)]
