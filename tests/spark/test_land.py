"""Landing in plain Parquet, with every message of the stream once, whatever was interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from headrace.errors import UsageError
from headrace.spark.failure import SparkError
from headrace.spark.land import Landing, start_landing
from headrace.spark.table.compaction import Compaction
from headrace.spark.table.description import Description
from headrace.spark.table.files import Files
from headrace.spark.table.interface import Commit, Settings
from headrace.spark.table.layout import file_name
from headrace.spark.table.parquet import ParquetFormat
from headrace.spark.table.preparing import prepare
from tests.spark.conftest import ONE_SERVER, Nats

# What is above the data source is the same for every server: the tests of the source run with all of them.
pytestmark = [pytest.mark.timeout(180), ONE_SERVER]

Land = Callable[..., Path]


@pytest.fixture
def land(on: Nats) -> Land:
    """Lands what is in a stream now, and returns where."""

    def run(stream: str, **settings: Any) -> Path:
        directory = on.directory / "table"
        settings.setdefault("settings", Settings("parquet"))
        landing = Landing(stream, str(directory), {"servers": on.broker.url}, **settings)
        start_landing(on.spark, landing, once=True).awaitTermination()
        return directory

    return run


def data_files(directory: Path) -> list[str]:
    found = sorted(directory.rglob("*.parquet"))
    names = [str(path.relative_to(directory)) for path in found]
    return [name for name in names if not name.startswith("_")]


def rows(directory: Path) -> list[dict[str, Any]]:
    """Read without Spark, as any other reader would."""
    found = pyarrow.parquet.read_table(directory).to_pylist()
    return sorted(found, key=lambda row: row["seq"])


def letters(directory: Path) -> str:
    return "".join(bytes(row["data"]).decode() for row in rows(directory))


def test_a_stream_is_a_partitioned_table_that_any_reader_can_read(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abc"), {"Kind": "letter"})
    directory = land(stream)
    assert letters(directory) == "abc"
    first = rows(directory)[0]
    assert (first["subject"], first["stream"], first["seq"]) == (f"{stream}.a", stream, 1)
    assert first["headers"] == [{"key": "Kind", "value": "letter"}]
    assert [name.partition("/")[0] for name in data_files(directory)] == [
        f"date={first['timestamp']:%Y-%m-%d}"
    ]
    assert on.spark.read.parquet(str(directory)).count() == 3
    # Restarted, it resumes; a batch that Spark did not record is written again, and is not duplicated.
    on.broker.publish(f"{stream}.a", list("de"))
    land(stream)
    commits = directory / "_headrace" / "checkpoint" / "commits"
    for record in "1", ".1.crc":
        (commits / record).unlink(missing_ok=True)
    on.broker.publish(f"{stream}.a", list("f"))
    land(stream)
    assert letters(directory) == "abcdef"


def test_small_files_are_merged(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abcdefg"))
    directory = land(stream, rows_per_batch=1, compact_after=3, partition_by="none", text=True)
    assert data_files(directory) == [
        "batch-000000006-0000.parquet",
        "batches-000000000-000000005-0000.parquet",
    ]
    assert "".join(row["data"] for row in rows(directory)) == "abcdefg"
    assert not (directory / "_headrace" / "compaction.json").exists()


@pytest.mark.parametrize("renamed", [False, True])
def test_a_compaction_that_was_interrupted_is_finished(on: Nats, renamed: bool) -> None:
    for batch in range(3):
        append(on, batch)
    old = data_files(on.directory / "table")
    # The state in which a kill leaves it: the journal is written, perhaps the new file is in place, too.
    files = Files(on.spark, str(on.directory / "table"))
    on.spark.range(20).coalesce(1).write.parquet(files.at("_headrace/staging/compaction"))
    staged = next(file.path for file in files.list("_headrace/staging") if file.name.startswith("part-"))
    compacted = [name for name in old if "batches" in name] or old[:2]
    target = file_name(0, 1, 7, "parquet")
    journal = {"staged": f"_headrace/staging/{staged}", "target": target, "replaces": compacted}
    files.write("_headrace/compaction.json", json.dumps(journal))
    if renamed:
        files.rename(journal["staged"], target)
    append(on, 3)
    found = pyarrow.parquet.read_table(on.directory / "table").column("id").to_pylist()
    assert sorted(found) == list(range(40))
    assert target in data_files(on.directory / "table")
    assert not files.exists("_headrace/compaction.json")


def test_only_recorded_batches_are_compacted(on: Nats) -> None:
    files = Files(on.spark, str(on.directory / "table"))
    for batch in range(3):
        append(on, batch)
    Compaction(on.spark, files, "parquet").run(before=2)
    assert "batch-000000002-0000.parquet" in data_files(on.directory / "table")


def test_a_directory_that_belongs_to_something_else_is_refused(on: Nats) -> None:
    directory = str(on.directory / "table")
    schema = on.spark.sql("SELECT 1 id, current_date() date").schema

    def open_as(origin: str, *partition_by: str, where: str = directory, format: str = "parquet") -> None:  # noqa: A002
        prepare(on.spark, where, Description(format, origin, partition_by), schema, Settings())

    open_as("the stream A", "date")
    with pytest.raises(UsageError, match="has origin the stream A, not the stream B") as raised:
        open_as("the stream B", "date")
    assert "another directory" in raised.value.hint
    with pytest.raises(UsageError, match="has partition_by date, not none"):
        open_as("the stream A")
    with pytest.raises(UsageError, match="has format parquet, not delta"):
        open_as("the stream A", "date", format="delta")
    (on.directory / "full").mkdir()
    (on.directory / "full" / "letters.txt").write_text("dear")
    with pytest.raises(UsageError, match="contains files that do not belong to this table"):
        open_as("the stream A", where=str(on.directory / "full"))
    with pytest.raises(UsageError, match=r"letters.txt is a file, not a directory"):
        open_as("the stream A", where=str(on.directory / "full" / "letters.txt"))
    with pytest.raises(UsageError, match="cannot be partitioned by nothing: it is not a column"):
        open_as("the stream A", "nothing", where=str(on.directory / "new"))
    assert not list((on.directory / "new").rglob("*.json"))


def test_a_directory_that_cannot_be_written_is_reported(on: Nats) -> None:
    (on.directory / "letter").write_text("dear")
    about = Description("parquet", "the stream A")
    with pytest.raises(SparkError, match=r"cannot write to the directory .*letter/table: ") as raised:
        prepare(on.spark, str(on.directory / "letter" / "table"), about, on.spark.range(1).schema, Settings())
    assert "choose another directory" in raised.value.hint


def test_a_table_whose_checkpoint_was_removed_is_refused(on: Nats) -> None:
    for batch in range(2):
        append(on, batch)
    with pytest.raises(UsageError, match="holds batch 1, but the query is at 0"):
        append(on, 0, "another")  # a new checkpoint makes a new query
    assert len(data_files(on.directory / "table")) == 2


def append(on: Nats, batch: int, query: str = "q") -> None:
    """One batch of ten rows, in a run of its own."""
    table = ParquetFormat(on.spark, str(on.directory / "table"))
    rows = on.spark.range(batch * 10, batch * 10 + 10).coalesce(1)
    table.commit(Commit(query, batch), table.write(rows, batch))
