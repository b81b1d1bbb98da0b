"""A table together with its stream: no acknowledged message is missing, and none is there twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from headrace.client import Client
from headrace.errors import UsageError
from headrace.spark import live_table
from headrace.spark.land import Landing, start_landing
from headrace.spark.table.interface import Settings
from headrace.spark.table_views import find_tables, history, make_table_views, parse_as_of
from headrace.spark.views import Sources, make_views, read_by
from tests.spark.conftest import ONE_SERVER, Nats

pytestmark = [
    pytest.mark.timeout(300),
    ONE_SERVER,
]


LANDING_SECONDS = 240.0


def land(on: Nats, stream: str, name: str = "table", **options: Any) -> str:
    """Land what is in the stream now."""
    directory = str(on.directory / name)
    landing = Landing(stream, directory, options={"servers": on.broker.url}, **options)
    start_landing(on.spark, landing, once=True).awaitTermination()
    return directory


def live(on: Nats, directory: str) -> Any:
    return live_table(on.spark, directory, {"servers": on.broker.url})


def sequences(rows: Any) -> list[int]:
    return sorted(row.seq for row in rows.select("seq").collect())


def test_what_came_after_the_last_batch_is_there(on: Nats) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abc"))
    directory = land(on, stream)
    assert sequences(live(on, directory)) == [1, 2, 3]
    on.broker.publish(f"{stream}.b", list("de"), headers={"Some": "header"})
    rows = live(on, directory)
    assert sequences(rows) == [1, 2, 3, 4, 5]
    assert rows.where("date != to_date(timestamp)").count() == 0
    elsewhere = on.spark.newSession()
    elsewhere.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")  # where it is tomorrow
    there = live_table(elsewhere, directory, {"servers": on.broker.url})
    assert there.select("date").distinct().collect() == rows.select("date").distinct().collect()
    assert rows.where("subject LIKE '%.b'").select("data", "headers").first().asDict(recursive=True) == {
        "data": bytearray(b"d"),
        "headers": [{"key": "Some", "value": "header"}],
    }


def test_messages_that_were_landed_and_removed_are_there_once(on: Nats) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abcd"))
    directory = land(on, stream)
    on.broker.publish(f"{stream}.a", list("ef"))
    on.broker.purge(stream, seq=4)
    assert sequences(live(on, directory)) == [1, 2, 3, 4, 5, 6]
    on.broker.delete_message(stream, 6)
    assert sequences(live(on, directory)) == [1, 2, 3, 4, 5]
    on.broker.purge(stream)
    assert sequences(live(on, directory)) == [1, 2, 3, 4]


def test_messages_that_left_before_they_were_landed_are_not_waited_for(on: Nats) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("ab"))
    directory = land(on, stream)
    on.broker.publish(f"{stream}.a", list("cdef"))
    on.broker.purge(stream, seq=5)
    assert sequences(live(on, directory)) == [1, 2, 5, 6]


def test_another_stream_of_that_name_does_not_complete_the_table(on: Nats) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", ["a"])
    directory = land(on, stream)
    on.broker.delete_stream(stream)
    on.broker.make_stream(name=stream)
    with pytest.raises(UsageError, match=f"the stream {stream} is not the one .* it was created again"):
        live(on, directory)


def test_what_no_stream_can_complete_is_refused(on: Nats) -> None:
    with pytest.raises(UsageError, match="there is no table in"):
        live(on, str(on.directory / "nothing"))
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", ["a"])
    plain = land(on, stream, settings=Settings("parquet"))
    with pytest.raises(UsageError, match="plain Parquet, which does not know how complete it is"):
        live(on, plain)


class Publisher(threading.Thread):
    """Publishes without a pause; `acknowledged` is what the server had on disk before anyone looked."""

    def __init__(self, url: str, stream: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self._url, self._stream = url, stream
        self._stopped = threading.Event()

    def run(self) -> None:
        with Client.connect(self._url) as client:
            publisher = client.publisher(stream=self._stream)
            while not self._stopped.wait(0.005):
                subjects = pa.array([f"{self._stream}.x"] * 20)
                publisher.publish(subjects, pa.array([b"payload"] * 20))
                self.acknowledged = publisher.flush().acked

    def stop(self) -> None:
        self._stopped.set()
        self.join()


@contextmanager
def landing_and_publishing(on: Nats, stream: str, directory: str) -> Iterator[Publisher]:
    publisher = Publisher(on.broker.url, stream)
    wanted = Landing(
        stream, directory, options={"servers": on.broker.url}, every_seconds=0.1, compact_after=5
    )
    query = start_landing(on.spark, wanted, once=False)
    publisher.start()
    try:
        yield publisher
        assert query.exception() is None
    finally:
        publisher.stop()
        query.stop()


@pytest.mark.parametrize("count", [6, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_every_query_finds_all_that_was_acknowledged_before_it_began(on: Nats, count: int) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", ["first"])
    directory = land(on, stream)
    versions, looked = set[int](), 0
    with landing_and_publishing(on, stream, directory) as publisher:
        deadline = time.monotonic() + LANDING_SECONDS
        while looked < count or len(versions) < 2:  # until it has landed meanwhile
            assert time.monotonic() < deadline, versions
            looked += 1
            before = publisher.acknowledged + 1
            rows = live(on, directory)
            figures = rows.selectExpr("count(*)", "count(DISTINCT seq)", "max(seq)").first()
            assert figures[0] == figures[1] == figures[2] >= before
            (table,) = find_tables(on.spark, [directory])
            versions.add(history(on.spark, table.name, [table], Settings()).count())
            time.sleep(0.2)


def test_tables_and_streams_have_names_in_sql(on: Nats) -> None:
    stream = on.broker.make_stream(name="LIVE")
    on.broker.publish("LIVE.a", list("ab"))
    land(on, stream, "lake/live")
    land(on, stream, "lake/live")
    on.broker.publish("LIVE.a", ["c"])
    tables = find_tables(on.spark, [str(on.directory / "lake")])
    assert [table.name for table in tables] == ["live"]
    query = (
        "SELECT (SELECT count(*) FROM live), (SELECT count(*) FROM live_landed), "
        "(SELECT count(*) FROM LIVE_stream)"
    )
    options = {"servers": on.broker.url}
    make_views(on.spark, [stream], options, taken=["live", "live_landed"])
    make_table_views(on.spark, read_by(on.spark, query), tables, options, {}, Settings())
    assert tuple(on.spark.sql(query).first()) == (3, 2, 3)
    versions = history(on.spark, "live", tables, Settings()).orderBy("version").collect()
    assert [row.rows for row in versions if row.batch is not None] == [2]
    assert versions[-1].complete_before == {"LIVE": 3}
    empty = parse_as_of(["live=0"], tables)
    make_table_views(on.spark, Sources("SELECT * FROM live"), tables, {}, empty, Settings())
    assert on.spark.sql("SELECT count(*) FROM live").first()[0] == 0
    on.broker.delete_stream(stream)
