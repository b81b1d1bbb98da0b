"""A small batch that the driver lands is the one that Spark would have landed."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from headrace.client.errors import ConnectionFailed
from headrace.spark import land as landing_module
from headrace.spark.land import Landing, start_landing
from headrace.spark.payload.schema import read_schema
from headrace.spark.progress import Tally
from headrace.spark.reading import small
from headrace.spark.table.background import Background
from headrace.spark.table.interface import Settings
from headrace.spark.table.opening import open_table
from headrace.spark.table.typed_rows import TypedRows
from tests.spark.conftest import ONE_SERVER, Nats
from tests.spark.table.test_early_landing import DDL, ORDERS, contents, publish

pytestmark = [pytest.mark.timeout(300)]

WIDE = "d DOUBLE, f FLOAT, b BOOLEAN, y DATE, n TIMESTAMP_NTZ, t TINYINT, big DECIMAL(30, 3), e DECIMAL(5, 1)"
WIDE_ROWS = [
    b'{"d":1.5,"f":2,"b":true,"y":"2026-11-18","n":"2026-11-18T01:02:03","t":-1,"big":7,"e":0.1}',
    b"{}",
]


class Chosen(Exception):
    """Spark was to land a batch."""


def refuse(*arguments: Any) -> None:
    raise Chosen


def land(on: Nats, stream: str, name: str, **settings: Any) -> str:
    directory = str(on.directory / name)
    decoding = read_schema(settings.pop("ddl", DDL))
    metadata = ("stream", "seq", "subject", "timestamp", "headers")
    form = Settings(settings.pop("form", "delta"))
    decoding = replace(decoding, metadata=metadata).checked()
    options = {"servers": on.broker.url}
    landing = Landing(stream, directory, options, settings=form, decoding=decoding, **settings)
    start_landing(on.spark, landing, once=True).awaitTermination()
    return directory


def physical(directory: str) -> set[str]:
    """The columns of all files, as Parquet has them, and where the files are."""
    found = set()
    for path in Path(directory).rglob("*.parquet"):
        place = [part for part in path.parts if "=" in part]
        columns = pyarrow.parquet.ParquetFile(path).schema
        found |= {
            f"{place} {column.path} {column.physical_type} {column.logical_type}"
            for column in (columns.column(index) for index in range(len(columns)))
        }
    return found


@ONE_SERVER
@pytest.mark.parametrize(
    ("form", "partition_by"),
    [
        ("delta", "none"),
        ("delta", "hour"),
        ("parquet", "day"),
        pytest.param("iceberg", "none", marks=pytest.mark.slow),
        pytest.param("parquet", "none", marks=pytest.mark.slow),
    ],
)
def test_a_table_is_the_same_whoever_lands_a_batch(
    on: Nats, monkeypatch: pytest.MonkeyPatch, form: str, partition_by: str
) -> None:
    stream = on.broker.make_stream()
    publish(on, f"{stream}.a", [*ORDERS, *WIDE_ROWS])
    on.broker.publish(f"{stream}.b", ["bad", '{"id": 9, "e": 3}'], headers={"Kind": "order"})
    wide = WIDE.replace("t TINYINT, ", "") if form == "iceberg" else WIDE  # its least integer is wider
    tables = []
    for name in ("here", "spark"):
        with monkeypatch.context() as patched:
            if name == "here":
                patched.setattr(TypedRows, "land", refuse)
            else:
                patched.setattr(landing_module, "small_batches", lambda *arguments: None)
            directory = land(
                on, stream, name, form=form, partition_by=partition_by, ddl=f"{DDL}, {wide}", rows_per_batch=8
            )
        tables.append((contents(on, directory), physical(directory)))
    assert len(tables[0][0]) == len(ORDERS) + len(WIDE_ROWS) + 2
    assert tables[0] == tables[1]


@ONE_SERVER
@pytest.mark.parametrize("why", ["rows", "bytes", "left", "server", "disk"])
def test_what_is_not_small_or_not_simple_is_landed_by_spark(
    on: Nats, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    stream = on.broker.make_stream()
    publish(on, f"{stream}.a", ORDERS)
    settings: dict[str, Any] = {"partition_by": "none"}
    limits = {"rows": (small, "MOST_ROWS"), "bytes": (small, "MOST_BYTES")}
    if why in limits:
        monkeypatch.setattr(*limits[why], 1)
    elif why == "left":
        monkeypatch.setattr("headrace.spark.table.small_batches.FEW_LEFT", 1)
    elif why == "server":

        def away(*arguments: object) -> None:
            raise ConnectionFailed("the server is away")

        monkeypatch.setattr(small.SmallReader, "_read", away)
    elif why == "disk":

        def full(*arguments: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("headrace.spark.table.files.Files.create", full)
    directory = land(on, stream, "table", **settings)
    assert len(contents(on, directory)) == len(ORDERS)
    with monkeypatch.context() as patched:
        patched.setattr(TypedRows, "land", refuse)
        publish(on, f"{stream}.a", ORDERS)
        with pytest.raises(Exception, match="Chosen"):
            land(on, stream, "table", **settings)


@ONE_SERVER
def test_a_wider_column_is_for_spark(on: Nats) -> None:
    stream = on.broker.make_stream()
    publish(on, f"{stream}.a", [b'{"id": 1}'])
    directory = land(on, stream, "table", ddl="id BIGINT", partition_by="none")
    publish(on, f"{stream}.a", [b'{"id": 2}'])
    land(on, stream, "table", ddl="id INT", partition_by="none")
    rows = open_table(on.spark, directory, Settings()).read(on.spark)
    assert sorted(row["id"] for row in rows.collect()) == [1, 2]
    assert rows.schema["id"].dataType.simpleString() == "bigint"


@ONE_SERVER
def test_a_batch_that_is_repeated_is_landed_once(on: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends between the dead letters and the commit of the rows, and is started again."""
    stream = on.broker.make_stream()
    publish(on, f"{stream}.a", ORDERS)
    module = "headrace.spark.table.small_batches"
    with monkeypatch.context() as patched:
        patched.setattr(f"{module}.commit_batch", refuse)
        with pytest.raises(Exception, match="Chosen"):
            land(on, stream, "table", partition_by="none")
    monkeypatch.setattr(TypedRows, "land", refuse)
    directory = land(on, stream, "table", partition_by="none")
    assert len(contents(on, directory)) == len(ORDERS)


@ONE_SERVER
def test_small_batches_are_counted(on: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TypedRows, "land", refuse)
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", ['{"id": 1}', "{", '{"id": 2}'])
    tally = Tally()
    landing = Landing(
        stream, str(on.directory / "table"), {"servers": on.broker.url}, decoding=read_schema("id BIGINT")
    )
    start_landing(on.spark, landing, once=True, tally=tally).awaitTermination()
    assert (tally.rows, tally.dead_letters, tally.read) == (2, 1, 3)


def test_work_in_the_background_fails_the_query_later_and_is_not_doubled() -> None:
    background, go, done = Background(), threading.Event(), []

    def work() -> None:
        go.wait()
        done.append(1)
        raise ValueError("the disk is full")

    background.run(work)
    background.run(work)
    background.check()
    go.set()
    background.wait()
    assert done == [1]
    with pytest.raises(ValueError, match="full"):
        background.check()
    background.check()
