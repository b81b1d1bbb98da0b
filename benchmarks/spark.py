"""Streams into Spark and back, beside Parquet and a source built on nats-py: `python -m benchmarks.spark`.

    --rows N         messages of the stream (3 million)
    --servers A,B    nats-server, headrace
    --master M       local[2]

Every figure is the best of three, of the whole job as Spark runs it: planning, tasks, all of it; in a warm
session. `noop` is Spark's sink that throws rows away. The payload is 128 bytes, without headers.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from headrace.bench.servers import find_server, running
from headrace.client import Client
from headrace.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROUNDS = 3
PAYLOAD_BYTES = 128
NATS_PY_ROWS = 50_000
FILL_ROWS = 50_000
SCHEMA = "subject string, data binary, stream string, seq bigint, timestamp timestamp"


class NatsPyReader(DataSourceReader):
    """What one writes first: nats-py, fetch, a tuple per message."""

    def __init__(self, options: Any) -> None:
        self.url, self.stream, self.rows = options["url"], options["stream"], int(options["rows"])

    def partitions(self) -> list[InputPartition]:
        half = self.rows // 2
        return [InputPartition((1, half)), InputPartition((half + 1, self.rows))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        yield from asyncio.run(self._fetch(*partition.value))

    async def _fetch(self, first: int, last: int) -> list[tuple[Any, ...]]:
        import nats
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        connection = await nats.connect(self.url)
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=first, ack_policy=AckPolicy.NONE
        )
        consumer = await connection.jetstream().pull_subscribe("", stream=self.stream, config=config)
        rows: list[tuple[Any, ...]] = []
        while len(rows) <= last - first:
            for message in await consumer.fetch(min(1000, last - first + 1 - len(rows))):
                known = message.metadata
                rows.append(
                    (message.subject, message.data, known.stream, known.sequence.stream, known.timestamp)
                )
        await connection.close()
        return rows


class NatsPySource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "nats_py"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: Any) -> NatsPyReader:
        return NatsPyReader(self.options)


def best(rows: int, work: Callable[[], object]) -> float:
    """Rows per second of the best round."""
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return rows / min(seconds)


def to_noop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def make_stream(client: Client, name: str) -> None:
    client.request(f"$JS.API.STREAM.CREATE.{name}", f'{{"name":"{name}","subjects":["{name}.>"]}}'.encode())


def fill(client: Client, name: str, rows: int) -> None:
    make_stream(client, name)
    publisher = client.publisher()
    for first in range(0, rows, FILL_ROWS):
        numbers = range(first, min(rows, first + FILL_ROWS))
        data = pa.array([str(number).ljust(PAYLOAD_BYTES, "x").encode() for number in numbers], pa.binary())
        publisher.publish(f"{name}.a", data)
    publisher.flush()


def measure(spark: SparkSession, kind: str, rows: int, directory: Path) -> Iterator[tuple[str, float]]:
    with running(find_server(kind), streams=True) as server:
        url = f"nats://{server.address.host}:{server.address.port}"
        with Client.connect(url, request_timeout=30) as client:
            fill(client, "BENCH", rows)
        stream = spark.read.format("nats").options(servers=url, stream="BENCH")
        plain = stream.option("includeHeaders", "false")
        yield f"{kind} to noop", best(rows, lambda: to_noop(plain.load()))
        parquet = str(directory / f"{kind}.parquet")
        yield (
            f"{kind} to Parquet",
            best(rows, lambda: plain.load().write.mode("overwrite").parquet(parquet)),
        )
        yield "Parquet to noop", best(rows, lambda: to_noop(spark.read.parquet(parquet)))
        copy = str(directory / "copy.parquet")
        yield (
            "Parquet to Parquet",
            best(rows, lambda: spark.read.parquet(parquet).write.mode("overwrite").parquet(copy)),
        )
        source = spark.read.format("nats_py").options(url=url, stream="BENCH", rows=NATS_PY_ROWS)
        yield f"{kind} to noop, through nats-py", best(NATS_PY_ROWS, lambda: to_noop(source.load()))
        yield f"Parquet to {kind}, acknowledged", write(spark, url, parquet, rows)


def write(spark: SparkSession, url: str, parquet: str, rows: int) -> float:
    with Client.connect(url) as client:
        make_stream(client, "COPY")
    messages = spark.read.parquet(parquet).select("data")
    sink = messages.write.format("nats").mode("append").options(servers=url, subject="COPY.a")
    rate = best(rows, sink.save)
    with Client.connect(url) as client:
        stored = client.stream_info("COPY").messages
    # A round whose messages were dropped as repetitions of the first would be a figure of something else.
    assert stored == ROUNDS * rows, f"{stored} stored, {ROUNDS * rows} written"
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--servers", default="nats-server,headrace")
    parser.add_argument("--master", default="local[2]")
    options = parser.parse_args()
    spark = spark_session("headrace bench", master=options.master)
    spark.dataSource.register(NatsPySource)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        for kind in options.servers.split(","):
            for what, rate in measure(spark, kind, options.rows, Path(directory)):
                print(f"{what:<45} {rate:>12,.0f} rows/s", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
