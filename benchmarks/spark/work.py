"""The tasks on a stream, and the same on a Parquet table; each returns rows per second.

`noop` is Spark's sink that drops rows. Payloads have 128 bytes, messages no headers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.spark.sources import CLOCK_OPTION, seconds_inside
from headrace.bench.failure import BenchError
from headrace.client import Client

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAYLOAD_BYTES = 128
FILL_ROWS = 50_000
STREAM = "BENCH"
COPY = "COPY"


@dataclass(frozen=True)
class Place:
    """Where rows come from and go to: a server, or, without a URL, the table alone."""

    spark: SparkSession
    directory: Path
    rows: int
    nats_py_rows: int
    url: str = ""
    store: str = ""
    """The server's storage directory, if it is one of ours."""

    @property
    def table(self) -> str:
        return str(self.directory / "table.parquet")

    @property
    def clock(self) -> str:
        path = self.directory / "clock"
        path.mkdir(exist_ok=True)
        return str(path)

    def stream(self, source: str, **options: object) -> DataFrame:
        reader = self.spark.read.format(source).options(servers=self.url, stream=STREAM)
        return reader.options(**{name: str(value) for name, value in options.items()}).load()

    def messages(self) -> DataFrame:
        return self.stream("nats", includeHeaders=False)

    def parquet(self) -> DataFrame:
        return self.spark.read.parquet(self.table)


def read(place: Place) -> float:
    """The whole job, including planning."""
    return _rate(place.rows, lambda: to_noop(place.messages() if place.url else place.parquet()))


def read_inside(place: Place) -> float:
    to_noop(place.stream("nats_timed", includeHeaders=False, **{CLOCK_OPTION: place.clock}))
    return place.rows / seconds_inside(place.clock)


def read_store(place: Place) -> float:
    """The same from the files of the server, which is only asked how far the stream reaches."""
    options = {CLOCK_OPTION: place.clock, "store": place.store}
    to_noop(place.stream("nats_timed", includeHeaders=False, **options))
    return place.rows / seconds_inside(place.clock)


def read_nats_py(place: Place) -> float:
    to_noop(place.stream("nats_py", rows=place.nats_py_rows, **{CLOCK_OPTION: place.clock}))
    return place.nats_py_rows / seconds_inside(place.clock)


def land(place: Place) -> float:
    """Into a Parquet table, from a stream or from another table."""
    copy = str(place.directory / "copy.parquet")
    rows = place.messages() if place.url else place.parquet()
    return _rate(place.rows, lambda: rows.write.mode("overwrite").parquet(copy))


def write(place: Place) -> float:
    """From the table into a stream, which acknowledges every message."""
    sink = place.parquet().select("data").write.format("nats").mode("append")
    sink = sink.options(servers=place.url, subject=f"{COPY}.a", stream=COPY)
    with Client.connect(place.url, request_timeout=30) as client:
        make_stream(client, COPY)
        rate = _rate(place.rows, sink.save)
        stored = client.stream_info(COPY).messages
        client.request(f"$JS.API.STREAM.DELETE.{COPY}")
    if stored != place.rows:
        raise BenchError(f"{place.rows} messages were written, {stored} are stored")
    return rate


def plain_payload(number: int) -> bytes:
    return str(number).ljust(PAYLOAD_BYTES, "x").encode()


def fill(place: Place, stream: str = STREAM, payload: Callable[[int], bytes] = plain_payload) -> None:
    """Put the messages into a stream of the server."""
    with Client.connect(place.url, request_timeout=30) as client:
        make_stream(client, stream)
        publisher = client.publisher()
        for first in range(0, place.rows, FILL_ROWS):
            numbers = range(first, min(place.rows, first + FILL_ROWS))
            publisher.publish(f"{stream}.a", pa.array([payload(number) for number in numbers], pa.binary()))
        publisher.flush()


def fill_table(place: Place) -> None:
    """Make the table of what is in the stream."""
    place.messages().write.parquet(place.table)


def make_stream(client: Client, name: str) -> None:
    client.request(f"$JS.API.STREAM.CREATE.{name}", f'{{"name":"{name}","subjects":["{name}.>"]}}'.encode())


def to_noop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _rate(rows: int, job: Callable[[], object]) -> float:
    began = time.perf_counter()
    job()
    return rows / (time.perf_counter() - began)
