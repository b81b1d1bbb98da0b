"""What stops a query on its way into a table: its driver, server or disk. Nothing is lost, or there twice."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.client import Client
from headrace.spark.failure import reason_of
from headrace.spark.land import Landing, start_landing
from headrace.spark.start import start_query
from tests.adversity.test_disks import small_disk
from tests.spark.test_exactly_once import Restartable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Restartable]:
    restartable = Restartable("headrace", tmp_path / "store")
    yield restartable
    restartable.close()


def publish(url: str, payloads: list[bytes]) -> None:
    with Client.connect(url) as client:
        client.request("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["S.>"]}')
        publisher = client.publisher()
        publisher.publish("S.a", pa.array(payloads, pa.binary()))
        assert publisher.flush().acked == len(payloads)


def land(spark: SparkSession, url: str, directory: Path, rows_per_batch: int) -> str:
    """Land what is there; why it stopped, if that was not the end."""
    from pyspark.errors import StreamingQueryException

    landing = Landing("S", str(directory), {"servers": url}, "none", rows_per_batch=rows_per_batch)
    try:
        start_landing(spark, landing, once=True).awaitTermination()
    except StreamingQueryException as error:
        return reason_of(error)
    return ""


def landed(directory: Path) -> list[int]:
    """The sequences in the table."""
    found: list[int] = DeltaTable(directory).to_pyarrow_table(columns=["seq"])["seq"].to_pylist()
    return sorted(found)


def committed_batches(directory: Path) -> list[int]:
    commits = directory / "_headrace" / "checkpoint" / "commits"
    return sorted(int(path.name) for path in commits.iterdir() if path.name.isdigit())


def test_a_lake_without_space_stops_the_query_and_loses_nothing(
    spark: SparkSession, server: Restartable, tmp_path: Path
) -> None:
    count, per_batch = 20, 4
    source = random.Random(1)
    publish(server.url, [source.randbytes(200_000) for _ in range(count)])
    with small_disk(tmp_path / "disk", "8m") as disk:
        table, ballast = disk / "table", disk / "ballast"
        ballast.write_bytes(bytes(5 * 1024 * 1024))
        reason = land(spark, server.url, table, per_batch)
        assert "space" in reason.lower(), reason
        seqs, recorded = landed(table), committed_batches(table)
        unwritten = set(range(1, per_batch * len(recorded) + 1)) - set(seqs)
        assert (unwritten, len(seqs)) == (set(), len(set(seqs)))
        ballast.unlink()
        assert land(spark, server.url, table, per_batch) == ""
        assert landed(table) == list(range(1, count + 1))
    print(f"full disk after {len(recorded)} recorded batches: {reason}")
    print(f"0 recorded rows unwritten; with room again {count} of {count} rows, each once")


@pytest.mark.parametrize("log", ["offsets", pytest.param("commits", marks=pytest.mark.long)])
def test_a_corrupt_checkpoint_stops_the_query_and_changes_nothing(
    spark: SparkSession, server: Restartable, tmp_path: Path, log: str
) -> None:
    table = tmp_path / "table"
    publish(server.url, [b"%d" % number for number in range(6)])
    assert land(spark, server.url, table, 3) == ""
    before = landed(table)
    record = max(path for path in (table / "_headrace/checkpoint" / log).iterdir() if path.name.isdigit())
    good = record.read_bytes()
    checksum = record.parent / f".{record.name}.crc"
    good_checksum = checksum.read_bytes()
    record.write_bytes(b"\0" * len(good))
    checksum.unlink()
    publish(server.url, [b"6", b"7"])
    reason = land(spark, server.url, table, 3)
    assert reason
    assert landed(table) == before
    record.write_bytes(good)
    checksum.write_bytes(good_checksum)
    assert land(spark, server.url, table, 3) == ""
    assert landed(table) == list(range(1, 9))
    print(f"corrupt {log}: {reason}")


def test_a_query_continues_when_its_server_is_killed_during_a_batch(
    spark: SparkSession, server: Restartable, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    count = 2000
    publish(server.url, [b"%d" % number for number in range(count)])
    taken: dict[int, list[int]] = {}  # by batch: one that is repeated replaces its first attempt
    restarting = threading.Thread(target=server.kill_and_start)

    def take(batch: DataFrame, number: int) -> None:
        if number == 1 and restarting.ident is None:
            server.server.process.kill()  # it is down when the rows of this batch are read
            restarting.start()
        taken[number] = [int(bytes(row["data"])) for row in batch.collect()]

    source: Any = spark.readStream.format("nats").options(servers=server.url, stream="S")
    rows = source.options(startingOffsets="earliest", maxOffsetsPerTrigger=500).load()
    writer = rows.writeStream.foreachBatch(take).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    began, starts, has_ended = time.monotonic(), 0, False
    while not has_ended and starts < 5:
        starts += 1
        try:
            start_query(writer).awaitTermination()
            has_ended = True
        except StreamingQueryException:
            restarting.join()
    found = sorted(number for numbers in taken.values() for number in numbers)
    print(f"server killed during a batch: at the end after {starts} starts, {time.monotonic() - began:.1f} s")
    print(f"{count - len(set(found))} lost, {len(found) - len(set(found))} twice")
    assert found == list(range(count))
