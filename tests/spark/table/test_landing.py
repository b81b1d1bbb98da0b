"""Landing in each format: every message once, readable everywhere, after crashes and without a checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException

from headrace.errors import UsageError
from headrace.spark.failure import reason_of
from headrace.spark.land import Landing, start_landing
from headrace.spark.table.convert import convert_to_delta
from headrace.spark.table.interface import Settings, StreamPosition
from headrace.spark.table.opening import open_table
from tests.spark.conftest import ONE_SERVER, Nats

pytestmark = [pytest.mark.timeout(180), ONE_SERVER]

Land = Callable[..., Path]


@pytest.fixture
def land(on: Nats) -> Land:
    """Lands what is in a stream now, and returns where."""

    def run(stream: str, form: str = "", said: list[str] | None = None, **settings: Any) -> Path:
        directory = on.directory / "table"
        landing = Landing(
            stream, str(directory), {"servers": on.broker.url}, settings=Settings(form), **settings
        )
        say = (said if said is not None else []).append
        start_landing(on.spark, landing, once=True, say=say).awaitTermination()
        return directory

    return run


def letters(on: Nats, directory: Path) -> str:
    """The payloads, in order, as three readers find them."""
    by_spark = open_table(on.spark, str(directory), Settings()).read(on.spark).orderBy("seq").collect()
    found = "".join(bytes(row["data"]).decode() for row in by_spark)
    rows = DeltaTable(directory).to_pyarrow_table().sort_by("seq").to_pylist()
    assert "".join(row["data"].decode() for row in rows) == found
    frame = polars.read_delta(str(directory)).sort("seq")
    assert b"".join(frame["data"].to_list()).decode() == found
    return found


def forget(directory: Path, batch: int) -> None:
    """As if Spark had been killed before it recorded this batch."""
    commits = directory / "_headrace" / "checkpoint" / "commits"
    for record in str(batch), f".{batch}.crc":
        (commits / record).unlink(missing_ok=True)


def test_a_stream_becomes_a_delta_table_with_every_message_once(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abc"), {"Kind": "letter"})
    directory = land(stream)
    table = open_table(on.spark, str(directory), Settings())
    assert (table.name, letters(on, directory)) == ("delta", "abc")
    row = DeltaTable(directory).to_pyarrow_table().sort_by("seq").to_pylist()[0]
    assert (row["subject"], row["stream"], row["seq"]) == (f"{stream}.a", stream, 1)
    assert row["headers"] == [{"key": "Kind", "value": "letter"}]
    assert row["date"] == row["timestamp"].date()
    on.broker.publish(f"{stream}.a", list("de"))
    land(stream)
    forget(directory, 1)
    on.broker.publish(f"{stream}.a", list("f"))
    land(stream)
    assert letters(on, directory) == "abcdef"
    latest = table.latest()
    assert latest is not None
    assert (latest.batch, latest.positions[stream].next) == (2, 7)


def test_the_position_is_the_end_of_the_batch_and_not_the_last_row(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abc"))
    on.broker.delete_message(stream, 3)
    directory = land(stream)
    latest = open_table(on.spark, str(directory), Settings()).latest()
    assert latest is not None
    assert (latest.rows, latest.positions[stream].next) == (2, 4)


def test_small_files_are_merged_while_the_query_runs(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abcdefg"))
    directory = land(stream, rows_per_batch=1, compact_after=3)
    assert letters(on, directory) == "abcdefg"
    assert len(DeltaTable(directory).file_uris()) == 1
    operations = [info.operation for info in open_table(on.spark, str(directory), Settings()).versions()]
    assert operations.count("COMPACT") == 2


def test_without_its_checkpoint_a_query_continues_after_what_the_table_has(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abc"))
    directory = land(stream)
    shutil.rmtree(directory / "_headrace" / "checkpoint")
    on.broker.publish(f"{stream}.a", list("de"))
    said: list[str] = []
    land(stream, said=said)
    assert letters(on, directory) == "abcde"
    assert [line for line in said if "continuing at sequence 4" in line]
    on.broker.publish(f"{stream}.a", list("f"))
    land(stream)
    assert letters(on, directory) == "abcdef"


def test_a_stream_that_was_created_again_is_not_taken_for_the_one_before(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abc"))
    directory = land(stream)
    shutil.rmtree(directory / "_headrace" / "checkpoint")
    on.broker.delete_stream(stream)
    on.broker.make_stream(name=stream)
    on.broker.publish(f"{stream}.a", list("vwxyz"))
    said: list[str] = []
    with pytest.raises(UsageError, match=r"was deleted and re-created since it landed in .*/table") as raised:
        land(stream, said=said)
    assert "another directory (--to)" in reason_of(raised.value)
    assert said == []  # above all not that it continues
    assert letters(on, directory) == "abc"


def test_without_its_checkpoint_a_query_does_not_continue_after_a_gap(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abc"))
    directory = land(stream)
    shutil.rmtree(directory / "_headrace" / "checkpoint")
    on.broker.publish(f"{stream}.a", list("def"))
    on.broker.purge(stream, seq=6)
    said: list[str] = []
    for must_be_complete in True, False:
        with pytest.raises(UsageError, match=r"messages 4 to 5 .* were removed before they landed"):
            land(stream, said=said, fail_on_data_loss=must_be_complete)
    assert said == []
    assert letters(on, directory) == "abc"


def test_a_plain_parquet_table_is_continued_and_converted(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abcd"))
    directory = land(stream, "parquet", rows_per_batch=1, compact_after=2)
    own = directory / "_headrace"  # as an earlier version has left it
    for name in "schema.json", "latest.json":
        (own / name).unlink()
    shutil.rmtree(own / "writers")
    about = {"origin": f"the stream {stream}", "partition_by": ["date"], "format": "parquet"}
    (own / "table.json").write_text(json.dumps(about))
    (own / ".table.json.crc").unlink(missing_ok=True)
    on.broker.publish(f"{stream}.a", list("e"))
    land(stream)  # the format is what the table is
    table = open_table(on.spark, str(directory), Settings())
    assert (table.name, table.read(on.spark).count()) == ("parquet", 5)
    forget(directory, 4)  # the batch is in the table, but Spark will repeat it
    with pytest.raises(UsageError, match="has format parquet, not delta"):
        land(stream, "delta")
    assert convert_to_delta(on.spark, str(directory), {}) >= 1
    on.broker.publish(f"{stream}.a", list("f"))
    land(stream)
    assert letters(on, directory) == "abcdef"
    latest = open_table(on.spark, str(directory), Settings()).latest()
    assert latest is not None
    assert latest.positions[stream] == StreamPosition(7, latest.positions[stream].created)
    with pytest.raises(UsageError, match="only plain Parquet can be converted"):
        convert_to_delta(on.spark, str(directory), {})


def test_a_table_can_continue_although_messages_are_lost(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abc"))
    land(stream)
    on.broker.publish(f"{stream}.a", list("defgh"))
    on.broker.purge(stream, seq=7)
    with pytest.raises(StreamingQueryException) as raised:
        land(stream)
    assert "--on-data-loss continue" in reason_of(raised.value)
    assert letters(on, land(stream, fail_on_data_loss=False)) == "abcgh"


def test_nothing_is_left_behind_where_no_table_could_be_made(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    with pytest.raises(UsageError, match="cannot be partitioned by nowhere"):
        land(stream, partition_by="nowhere")
    assert not (on.directory / "table").exists()
