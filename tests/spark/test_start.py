"""A query that could not start is started again at once; one whose batch failed is not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from headrace.spark.start import TOO_LATE, start_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.timeout(180)


class Slow:
    """Starts a query as a machine does that is so busy that nobody looks at it before it is over."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self.starts = 0

    def start(self) -> StreamingQuery:
        self.starts += 1
        query: StreamingQuery = self._writer.start()
        with contextlib.suppress(StreamingQueryException):
            query.awaitTermination()
        return query


def failing_source(tries: Path, failures: int) -> type[DataSource]:
    """A source whose process does not start a number of times. Local classes travel to it as they are."""

    class Reader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:  # noqa: N802
            return {"next": 0}

        def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
            return {"next": 1}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
            return []

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            return iter(())

    class Failing(DataSource):
        @classmethod
        def name(cls) -> str:
            return "failing"

        def schema(self) -> str:
            return "number INT"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            with tries.open("a") as log:
                log.write("x")
            if tries.stat().st_size <= failures:
                raise RuntimeError(TOO_LATE)
            return Reader()

    return Failing


def test_a_source_that_could_not_start_is_started_again(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(failing_source(tmp_path / "tries", 2))
    rows = spark.readStream.format("failing").load()
    writer = rows.writeStream.format("noop").trigger(availableNow=True)
    slow = Slow(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
    assert start_query(slow).exception() is None  # type: ignore[arg-type]
    assert slow.starts == 3


def test_a_batch_that_failed_in_the_same_words_is_left_to_the_caller(
    spark: SparkSession, tmp_path: Path
) -> None:
    def fail(rows: DataFrame, batch: int) -> None:
        raise RuntimeError(TOO_LATE)

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
    writer = rows.writeStream.foreachBatch(fail)
    slow = Slow(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
    query = start_query(slow)  # type: ignore[arg-type]
    assert slow.starts == 1
    assert TOO_LATE in str(query.exception())
