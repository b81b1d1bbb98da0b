"""`headrace land --format iceberg`: every message once, in the catalog beside the table or in another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import UsageError
from headrace.spark.failure import in_one_line
from headrace.spark.land import Landing, start_landing
from headrace.spark.pipeline.plan import build_views
from headrace.spark.pipeline.reading import read_pipeline
from headrace.spark.pipeline.run import Queries
from headrace.spark.table.description import read_description
from headrace.spark.table.files import Files
from headrace.spark.table.interface import Settings, TableError
from headrace.spark.table.opening import open_table
from tests.spark.conftest import ONE_SERVER, Nats
from tests.spark.table.formats import read_elsewhere
from tests.spark.table.test_landing import forget

pytestmark = [pytest.mark.timeout(400), ONE_SERVER]

Land = Callable[..., Any]


@pytest.fixture
def land(on: Nats) -> Land:
    """Lands what is in a stream now, and returns the table."""

    def run(stream: str, settings: Settings = Settings("iceberg"), **more: Any) -> Any:  # noqa: B008
        directory = str(on.directory / "table")
        landing = Landing(stream, directory, {"servers": on.broker.url}, settings=settings, **more)
        start_landing(on.spark, landing, once=True).awaitTermination()
        return open_table(on.spark, directory, Settings())

    return run


def letters(on: Nats, table: Any) -> str:
    """The payloads, in order, as three readers find them."""
    rows = sorted(table.read(on.spark).collect(), key=lambda row: int(row.seq))
    found = "".join(bytes(row.data).decode() for row in rows)
    for program, others in read_elsewhere(table).items():
        others.sort(key=lambda row: int(row["seq"]))
        assert b"".join(row["data"] for row in others).decode() == found, program
    return found


def test_a_stream_becomes_an_iceberg_table_with_every_message_once(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abc"), {"Kind": "letter"})
    table = land(stream)
    assert (table.name, letters(on, table)) == ("iceberg", "abc")
    row = read_elsewhere(table)["pyiceberg"][0]
    assert (row["subject"], row["stream"], row["headers"]) == (
        f"{stream}.a",
        stream,
        [{"key": "Kind", "value": "letter"}],
    )
    assert row["date"] == row["timestamp"].date()
    on.broker.publish(f"{stream}.a", list("de"))
    land(stream, Settings())  # the format is what the table is
    forget(on.directory / "table", 1)
    on.broker.publish(f"{stream}.a", list("f"))
    land(stream)
    assert letters(on, table) == "abcdef"
    assert (table.latest().batch, table.latest().positions[stream].next) == (2, 7)


def test_small_files_are_merged_while_the_query_runs(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abcdefg"))
    table = land(stream, rows_per_batch=1, compact_after=3)
    assert letters(on, table) == "abcdefg"
    assert len(table.files()) == 1
    assert [info.operation for info in table.versions()].count("compact") == 2


def test_a_table_in_another_catalog_remembers_where_it_is(on: Nats, land: Land) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    address = f"sqlite:///{on.directory}/lake.sqlite"
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abc"))
    land(stream, Settings("iceberg", catalog=address, table="sales.orders"))
    on.broker.publish(f"{stream}.a", list("de"))
    land(stream, Settings())
    catalog = SqlCatalog("headrace", uri=address)
    found = catalog.load_table("sales.orders").scan().to_arrow()
    catalog.close()
    assert sorted(found["data"].to_pylist()) == [b"a", b"b", b"c", b"d", b"e"]
    assert not (on.directory / "table" / "_headrace" / "catalog.sqlite").exists()
    with pytest.raises(UsageError, match=r"has table sales\.orders, not sales\.others"):
        land(stream, Settings(catalog=address, table="sales.others"))
    other = on.directory / "other"
    landing = Landing(
        stream,
        str(other),
        {"servers": on.broker.url},
        settings=Settings("iceberg", catalog=address, table="sales.orders"),
    )
    with pytest.raises(
        UsageError, match=r"the catalog has the table sales\.orders in .*table, not in .*other"
    ):
        start_landing(on.spark, landing, once=True)
    assert not list(other.rglob("*.*"))


PIPELINE = """\
checkpoint: state
sources:
  messages: {stream: ORDERS}
sinks:
  orders:
    from: messages
    table: table
    format: iceberg
    catalog: lake
    catalog_table: sales.orders
    storage_options: {type: sql, uri: "sqlite:///${LAKE}"}
    schema: id BIGINT NOT NULL
"""


def test_a_sink_of_a_pipeline_may_have_another_catalog(on: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    stream = on.broker.make_stream()
    monkeypatch.setenv("LAKE", str(on.directory / "lake.sqlite"))
    (on.directory / "shop.yml").write_text(PIPELINE.replace("ORDERS", stream))
    pipeline = read_pipeline(on.directory / "shop.yml")
    options = {"servers": on.broker.url}
    for payloads in ['{"id": 1}', "bad"], ['{"id": 2}']:
        on.broker.publish(f"{stream}.a", payloads)
        views = build_views(on.spark, pipeline, options)
        queries = Queries(on.spark, pipeline, views, options, lambda name, rows: None, once=True)
        for query in queries.start_all().values():
            query.awaitTermination()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{on.directory}/lake.sqlite")
    found = catalog.load_table("sales.orders").scan().to_arrow()["id"].to_pylist()
    bad = catalog.load_table("sales.orders_dead_letters").scan().to_arrow()["data"].to_pylist()
    catalog.close()
    assert (sorted(found), bad) == ([1, 2], [b"bad"])
    assert not list((on.directory / "table").rglob("catalog.sqlite"))
    about = read_description(Files(on.spark, str(on.directory / "table")))
    assert about is not None
    assert (about.catalog, about.table) == ("lake", "sales.orders")


def test_a_catalog_that_does_not_answer_leaves_nothing_behind(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    with pytest.raises(TableError, match="does not answer"):
        land(stream, Settings("iceberg", catalog="http://127.0.0.1:9", table="sales.orders"))
    assert read_description(Files(on.spark, str(on.directory / "table"))) is None
    with pytest.raises(UsageError, match="only Iceberg tables have a catalog"):
        land(stream, Settings("delta", catalog="lake", table="sales.orders"))
    assert not [path for path in Path(on.directory / "table").rglob("*") if path.is_file()]


def test_a_table_that_was_moved_says_so(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abc"))
    land(stream)
    (on.directory / "table").rename(on.directory / "renamed")
    renamed = str(on.directory / "renamed")
    with pytest.raises(UsageError, match=r"has default\.table, and not default\.renamed") as raised:
        open_table(on.spark, renamed, Settings()).read(on.spark)
    assert "cannot be moved" in raised.value.hint
    landing = Landing(stream, renamed, {"servers": on.broker.url})
    with pytest.raises(UsageError, match=r"has default\.table, and not default\.renamed"):
        start_landing(on.spark, landing, once=True)
    below = on.directory / "below" / "table"
    below.parent.mkdir()
    Path(renamed).rename(below)
    with pytest.raises(UsageError, match=r"metadata of default\.table is not there") as raised:
        open_table(on.spark, str(below), Settings()).read(on.spark)
    assert "\n" not in in_one_line(raised.value)
    below.rename(on.directory / "table")
    assert letters(on, open_table(on.spark, str(on.directory / "table"), Settings())) == "abc"
