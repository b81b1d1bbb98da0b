"""Where the time of a Spark read and of the sink goes: CPU per message, by process.

`python -m benchmarks.spark.stages [--messages N] [--rounds 3] [--only TEXT] [--spark]`

Without Spark: the client alone, which fetches a stream into columns, through the server and from its files,
and publishes columns with message ids.
With `--spark` also the same through Spark, and batches that cost nothing to make, which show what Spark
itself needs. CPU time depends less on what else the machine does than a rate does; the lowest round is shown.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks.spark.family import cpu_by_role
from benchmarks.spark.work import STREAM, Place, fill, make_stream, plain_payload
from headrace.bench.servers import find_server, running
from headrace.client import Client
from headrace.client.store_directory import StoreDirectory

PUBLISH_ROWS = 16_384
READY_MADE_ROWS = 32_768
TASKS = 2


class ReadyMadeReader(DataSourceReader):
    """As many rows as there are messages, from one batch that was made before."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        columns = {
            "subject": pa.array([f"{STREAM}.a"] * READY_MADE_ROWS),
            "data": pa.array([plain_payload(number) for number in range(READY_MADE_ROWS)], pa.binary()),
            "stream": pa.array([STREAM] * READY_MADE_ROWS),
            "seq": pa.array(range(READY_MADE_ROWS), pa.int64()),
            "timestamp": pa.array([0] * READY_MADE_ROWS, pa.timestamp("us", tz="UTC")),
        }
        batch = pa.record_batch(columns)
        for _ in range(self.rows // TASKS // READY_MADE_ROWS):
            yield batch


class ReadyMadeSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ready_made"

    def schema(self) -> str:
        return "subject string, data binary, stream string, seq bigint, timestamp timestamp"

    def reader(self, schema: object) -> ReadyMadeReader:
        return ReadyMadeReader(int(self.options["rows"]))


def fetch(place: Place) -> None:
    with Client.connect(place.url) as client:
        rows = sum(batch.num_rows for batch in client.fetch_range(STREAM, 1, place.rows, headers=False))
        assert rows == place.rows


def fetch_from_files(place: Place) -> None:
    """With the files of the server, which runs: the last of them is not sealed, so it is scanned."""
    batches = StoreDirectory(place.store).fetch_range(STREAM, 1, place.rows, headers=False)
    assert sum(batch.num_rows for batch in batches) == place.rows


def publish(place: Place) -> None:
    """As the sink does it: an id for each message, all acknowledged."""
    with Client.connect(place.url, request_timeout=30) as client:
        make_stream(client, "IDS")
        publisher = client.publisher()
        data = pa.array([plain_payload(number) for number in range(PUBLISH_ROWS)], pa.binary())
        for first in range(0, place.rows, PUBLISH_ROWS):
            count = min(PUBLISH_ROWS, place.rows - first)
            numbers = pa.array(range(first, first + count)).cast(pa.string())
            publisher.publish("IDS.a", data.slice(0, count), None, numbers)
        publisher.flush()
        client.request("$JS.API.STREAM.DELETE.IDS")


def through_spark(place: Place) -> dict[str, Callable[[Place], object]]:
    from benchmarks.spark import tables, work

    def ready_made(place: Place) -> None:
        rows = place.spark.read.format("ready_made").option("rows", place.rows).load()
        rows.write.format("noop").mode("overwrite").save()

    place.spark.dataSource.register(ReadyMadeSource)
    work.fill_table(place)
    work.fill(place, tables.JSON_STREAM, tables.json_payload)
    return {
        "ready-made batches → noop": ready_made,
        "stream → noop": work.read,
        "stream → noop from files": lambda place: work.to_noop(
            place.stream("nats", includeHeaders=False, store=place.store)
        ),
        "table → noop": lambda place: work.read(Place(place.spark, place.directory, place.rows, 0)),
        "table → stream": work.write,
        "stream → Delta": tables.land_delta,
        "stream → typed Delta": tables.land_typed,
    }


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark.stages", description="Where the time goes, by process."
    )
    parser.add_argument("--messages", type=int, default=1_000_000, help="of the stream (1,000,000)")
    parser.add_argument("--rounds", type=int, default=3, help="the lowest is shown (3)")
    parser.add_argument("--spark", action="store_true", help="also through Spark")
    parser.add_argument("--only", default="", metavar="TEXT", help="stages whose names contain this")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="headrace-stages-") as directory,
        running(find_server("headrace"), streams=True) as server,
    ):
        place = Place(None, Path(directory), options.messages, 0, f"nats://{server.address}", server.store)  # type: ignore[arg-type]
        fill(place)
        stages: dict[str, Callable[[Place], object]] = {
            "fetch": fetch,
            "fetch from files": fetch_from_files,
            "publish with ids": publish,
        }
        if options.spark:
            from headrace.spark.session import spark_session

            spark = spark_session("headrace stages", master=f"local[{TASKS}]")
            place = replace(place, spark=spark)
            stages |= through_spark(place)
        rounds = f"lowest of {options.rounds} rounds"
        print(f"{options.messages:,} messages of 128 B, {rounds}: CPU per message in µs")
        for name, stage in stages.items():
            if options.only in name:
                print(f"{name:28}{measure(stage, place, server.pid, options.rounds)}", flush=True)
    return 0


def measure(stage: Callable[[Place], object], place: Place, server: int | None, rounds: int) -> str:
    found: list[tuple[float, dict[str, float], float]] = []
    for _ in range(rounds):
        before, began = cpu_by_role(server), time.perf_counter()
        stage(place)
        seconds, after = time.perf_counter() - began, cpu_by_role(server)
        used = {role: (after[role] - before.get(role, 0.0)) / place.rows * 1e6 for role in after}
        found.append((sum(used.values()), used, place.rows / seconds))
    total, used, rate = min(found, key=lambda costs: costs[0])
    roles = ", ".join(f"{role} {cpu:.2f}" for role, cpu in sorted(used.items()) if cpu >= 0.005)
    return f"{total:5.2f} ({roles}); {rate / 1e6:.2f} M/s"


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.getcwd())  # where Spark's workers find this file
    sys.exit(main(sys.argv[1:]))
