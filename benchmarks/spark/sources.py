"""What the benchmark reads from: our data source and one built on nats-py, both with a clock inside the read.

A job is more than its read: Spark asks Python processes for schemas and partitions, and plans, which takes as
long for ten rows as for ten million. So every task records when its read began and ended, in its own file.
The time inside the read is from the first beginning to the last end.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from headrace.spark import NatsDataSource
from headrace.spark.options import Use, read_options
from headrace.spark.reading.batch_reader import BatchReader

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

CLOCK_OPTION = "clock"
"""The directory of the tasks' files."""


@contextmanager
def noted(directory: str) -> Iterator[None]:
    began = time.time_ns()
    yield
    Path(directory, f"{began}-{os.getpid()}").write_text(f"{began} {time.time_ns()}")


def seconds_inside(directory: str) -> float:
    """The time of the reads since the last call."""
    notes = list(Path(directory).iterdir())
    times = [tuple(map(int, note.read_text().split())) for note in notes]
    for note in notes:
        note.unlink()
    return (max(end for _, end in times) - min(begin for begin, _ in times)) / 1e9


class TimedReader(BatchReader):
    clock = ""

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        with noted(self.clock):
            yield from super().read(partition)


class TimedSource(NatsDataSource):
    @classmethod
    def name(cls) -> str:
        return "nats_timed"

    def __init__(self, options: dict[str, str]) -> None:
        self.clock = options[CLOCK_OPTION]
        super().__init__({key: value for key, value in options.items() if key != CLOCK_OPTION})

    def reader(self, schema: StructType) -> DataSourceReader:
        reader = TimedReader(read_options(self.options, Use.BATCH))
        reader.clock = self.clock
        return reader


class NatsPyReader(DataSourceReader):
    """The obvious way to write it: nats-py, fetch, a tuple per message."""

    def __init__(self, options: dict[str, str]) -> None:
        self.url, self.stream, self.rows = options["servers"], options["stream"], int(options["rows"])
        self.clock = options[CLOCK_OPTION]

    def partitions(self) -> list[InputPartition]:
        half = self.rows // 2
        return [InputPartition((1, half)), InputPartition((half + 1, self.rows))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        with noted(self.clock):
            yield from asyncio.run(self._fetch(*partition.value))

    async def _fetch(self, first: int, last: int) -> Iterable[tuple[Any, ...]]:
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
        return "subject string, data binary, stream string, seq bigint, timestamp timestamp"

    def reader(self, schema: StructType) -> NatsPyReader:
        return NatsPyReader(dict(self.options))
