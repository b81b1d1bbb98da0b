"""The option `store`: messages from the files of a server, with a server to ask or without one."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, In, LessThanOrEqual, StringStartsWith

from headrace.client import Client, stored_fetch
from headrace.client.columns import Columns
from headrace.client.stored_rows import StoredRows
from headrace.engine.basics.filters import Filter
from headrace.engine.store.snapshot import Snapshot
from headrace.spark.failure import DataLossError, DataSourceError, reason_of
from headrace.spark.options import Use, read_options
from headrace.spark.reading.batch_reader import BatchReader
from headrace.spark.reading.pushdown import PushdownReader
from headrace.spark.reading.stream_reader import StreamReader
from tests.client.streams import Streams
from tests.servers import Server, running_server
from tests.spark.conftest import Broker, Nats

pytestmark = pytest.mark.timeout(180)


@dataclass(frozen=True)
class Home:
    """A server and its storage directory."""

    server: Server
    store: str
    streams: Streams

    @property
    def url(self) -> str:
        return f"nats://{self.server.host}:{self.server.port}"

    def both_ways(self) -> list[dict[str, str]]:
        """The options of a read with a server and without one."""
        return [{"store": self.store}, {"store": self.store, "servers": self.url}]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    store = str(tmp_path_factory.mktemp("store"))
    with (
        running_server("headrace", flags=["-js", "-sd", store]) as server,
        Client.connect(f"nats://{server.host}:{server.port}") as client,
    ):
        yield Home(server, store, Streams(client))


def read(reader: BatchReader) -> pa.Table:
    """All rows, as Spark would get them."""
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def reader_of(**options: object) -> BatchReader:
    found = read_options({name: str(value) for name, value in options.items()}, Use.BATCH)
    return PushdownReader(found) if found.filter_pushdown else BatchReader(found)


def outcome(**options: object) -> Any:
    """The rows, or the error."""
    try:
        return read(reader_of(**options))
    except DataSourceError as error:
        return type(error), str(error)


@pytest.fixture(scope="module")
def filled(home: Home) -> str:
    """A stream with gaps at its head, in its middle and at its end."""
    name = home.streams.create("FILLED", subjects=["s.>"], compression="s2")
    home.streams.fill(name, 300, "s.a")
    home.streams.fill(name, 300, "s.b")
    home.streams.purge(name, seq=11)
    for seq in 50, 51, 600:
        home.streams.delete_message(name, seq)
    return name


CASES: list[dict[str, object]] = [
    {},
    {"includeHeaders": "false"},
    {"minPartitions": 7},
    {"subject": "s.b"},
    {"startingOffsets": '{"FILLED": 50}'},
    {"startingOffsets": '{"FILLED": 5}'},
    {"startingOffsets": '{"FILLED": 5}', "failOnDataLoss": "false"},
    {"startingOffsets": '{"FILLED": 900}'},
    {"endingOffsets": '{"FILLED": 300}'},
    {"endingOffsets": '{"FILLED": 900}'},
    {"endingOffsets": '{"FILLED": 900}', "failOnDataLoss": "false"},
    {"startingOffsets": '{"FILLED": 300}', "endingOffsets": '{"FILLED": 200}'},
    {"startingTimestamp": "2020-01-01T00:00:00Z"},
    {"endingTimestamp": "2020-01-01T00:00:00Z"},
    {"startingTimestamp": "2100-01-01T00:00:00Z"},
    {"stream": "FILLED,NONE"},
    {"headrace.jsonSchema": "id INT"},
    {"filterPushdown": "true"},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rows_offsets_and_errors_are_those_of_the_server(
    home: Home, filled: str, case: dict[str, object]
) -> None:
    options = {"stream": filled, **case}
    expected = outcome(servers=home.url, **options)
    offline, online = (outcome(**way, **options) for way in home.both_ways())
    assert online == expected
    if case.get("stream"):  # the server is not in the text
        assert "there is no such stream in" in offline[1]
        assert "it has FILLED" in offline[1]
    else:
        assert offline == expected
    if not isinstance(expected, tuple):
        assert reader_of(store=home.store, **options).partitions() == (
            reader_of(servers=home.url, **options).partitions()
        )


def test_a_time_in_the_middle(home: Home, filled: str) -> None:
    moment = read(reader_of(stream=filled, store=home.store))["timestamp"][200].as_py().isoformat()
    for option in "startingTimestamp", "endingTimestamp":
        expected = read(reader_of(stream=filled, servers=home.url, **{option: moment}))
        for way in home.both_ways():
            assert read(reader_of(stream=filled, **way, **{option: moment})).equals(expected)


def test_filters_that_are_pushed_down(home: Home, filled: str) -> None:
    moment = read(reader_of(stream=filled, store=home.store))["timestamp"][100].as_py()
    for condition in (
        EqualTo(("subject",), "s.b"),
        StringStartsWith(("subject",), "s."),
        GreaterThan(("seq",), 400),
        LessThanOrEqual(("timestamp",), moment),
        In(("stream",), ("OTHER",)),
    ):
        found = []
        for way in {"servers": home.url}, *home.both_ways():
            reader = reader_of(stream=filled, filterPushdown="true", **way)
            assert isinstance(reader, PushdownReader)
            reader.pushFilters([condition])
            found.append(read(reader))
        assert found[0] == found[1] == found[2]


def test_messages_that_are_removed_between_planning_and_reading(home: Home) -> None:
    for way in home.both_ways():
        name = home.streams.create(subjects=["gone.>"])
        home.streams.fill(name, 100, "gone.a")
        reader = reader_of(stream=name, **way)
        partitions = reader.partitions()
        home.streams.purge(name, seq=41)
        with pytest.raises(DataLossError, match="starts at 41 by now; messages from 1 are gone"):
            list(reader.read(partitions[0]))
        lenient = reader_of(stream=name, failOnDataLoss="false", **way)
        rows = pa.Table.from_batches(list(lenient.read(partitions[0])))
        assert rows["seq"].to_pylist() == list(range(41, 101))
        home.streams.api(f"STREAM.DELETE.{name}")


# -- a server and its store


def test_a_task_that_does_not_see_the_store_asks_the_server(
    home: Home, filled: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    expected = read(reader_of(stream=filled, servers=home.url))
    assert read(reader_of(stream=filled, servers=home.url, store=tmp_path / "none")).equals(expected)
    assert f"headrace: the stream {filled} is read through the server: {tmp_path}" in capfd.readouterr().err


def test_what_the_files_do_not_have_comes_from_the_server(home: Home, tmp_path: Path) -> None:
    """Files that end early, as when a network file system is behind."""
    name = home.streams.create(subjects=["late.>"])
    home.streams.fill(name, 100, "late.a")
    shutil.copytree(home.store, tmp_path / "copy")
    home.streams.fill(name, 100, "late.b")
    expected = read(reader_of(stream=name, servers=home.url))
    assert expected.num_rows == 200
    assert read(reader_of(stream=name, servers=home.url, store=tmp_path / "copy")).equals(expected)


def test_files_that_fail_in_the_middle_are_read_through_the_server(
    home: Home, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        """Adds a hundred rows at a time, the second time with an error in between."""

        def __init__(self, snapshot: Snapshot, chosen: Filter, first: int, last: int) -> None:
            self._snapshot, self._chosen, self._last = snapshot, chosen, last
            self.next_seq, self.damaged = first, False

        def fill(self, columns: Columns) -> None:
            until = min(self.next_seq + 99, self._last)
            rows = StoredRows(self._snapshot, self._chosen, self.next_seq, until)
            rows.fill(columns)
            self.next_seq = rows.next_seq
            if self.next_seq > 150:
                raise OSError(errno.EIO, "the disk fails")

    expected = read(reader_of(stream=filled, servers=home.url))
    monkeypatch.setattr(stored_fetch, "StoredRows", Failing)
    assert read(reader_of(stream=filled, servers=home.url, store=home.store)).equals(expected)
    with pytest.raises(DataSourceError, match="the disk fails"):
        read(reader_of(stream=filled, store=home.store))


def test_damaged_files_are_read_through_the_server(home: Home, tmp_path: Path) -> None:
    name = home.streams.create(subjects=["harm.>"])
    home.streams.fill(name, 100, "harm.a")
    shutil.copytree(home.store, tmp_path / "copy")
    (path,) = (tmp_path / "copy").glob(f"jetstream/$G/streams/{name}/msgs/*.log")
    path.write_bytes(path.read_bytes().replace(b"00000050", b"00000051"))
    table = read(reader_of(stream=name, servers=home.url, store=tmp_path / "copy"))
    assert table["data"].to_pylist() == [b"%08d" % number for number in range(1, 101)]
    alone = read(reader_of(stream=name, store=tmp_path / "copy"))
    assert alone["seq"].to_pylist() == [seq for seq in range(1, 101) if seq != 50]


def test_a_store_of_another_server_is_refused(home: Home, tmp_path: Path) -> None:
    with (
        running_server("headrace", flags=["-js", "-sd", str(tmp_path)]) as other,
        Client.connect(f"nats://{other.host}:{other.port}") as client,
    ):
        name = Streams(client).create("TWICE", subjects=["t.>"])
        Streams(client).fill(name, 10, "t.a")
    home.streams.create(name, subjects=["t.>"])
    home.streams.fill(name, 10, "t.a")
    with pytest.raises(DataSourceError, match=r"TWICE in .* is not the one of the server"):
        read(reader_of(stream=name, servers=home.url, store=tmp_path))


def test_a_stream_in_memory(home: Home) -> None:
    name = home.streams.create(subjects=["m.>"], storage="memory")
    home.streams.fill(name, 10, "m.a")
    with pytest.raises(DataSourceError, match=f"the stream {name} is in memory: it has no files; leave out"):
        read(reader_of(stream=name, servers=home.url, store=home.store))
    with pytest.raises(DataSourceError, match="streams in memory have no files"):
        read(reader_of(stream=name, store=home.store))


# -- options


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"store": "s3a://bucket/x"}, "must be a directory that the workers can open, not a URL"),
        ({"store": " "}, "`store` must not be empty"),
        ({"store": "/x", "nats.user": "me"}, "`nats.user` is for a server, and `store` alone asks none"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, str], text: str) -> None:
    with pytest.raises(DataSourceError, match=text):
        read_options({"stream": "ORDERS", **options}, Use.BATCH)


def test_a_store_alone_cannot_be_followed() -> None:
    with pytest.raises(DataSourceError, match="`store` without `servers` cannot be followed"):
        read_options({"stream": "ORDERS", "store": "/x"}, Use.STREAM)
    assert read_options({"stream": "ORDERS", "store": "/x", "servers": "nats://a"}, Use.STREAM).store == "/x"
    assert StreamReader(read_options({"stream": "O", "servers": "nats://a"}, Use.STREAM)).options.store == ""


def test_a_relative_path_is_that_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_options({"stream": "ORDERS", "store": "data"}, Use.BATCH).store == str(tmp_path / "data")
    assert read_options({"stream": "O", "store": "file:///data"}, Use.BATCH).store == "/data"


# -- with Spark


def test_with_spark(spark: Any, home: Home, filled: str, tmp_path: Path) -> None:
    on = Nats(spark, Broker(home.server), tmp_path)
    expected = sorted(map(tuple, on.read(filled).collect()), key=lambda row: row[4])
    alone = spark.read.format("nats").options(stream=filled, store=home.store, minPartitions="3").load()
    assert sorted(map(tuple, alone.collect()), key=lambda row: row[4]) == expected
    batches = on.drain(on.read_stream(filled, store=home.store, startingOffsets="earliest"))
    assert [tuple(row) for batch in batches for row in batch] == expected
    with pytest.raises(Exception, match="there is no such stream") as caught:
        spark.read.format("nats").options(stream="NONE", store=home.store).load().collect()
    assert reason_of(caught.value).startswith("stream NONE: there is no such stream in")
