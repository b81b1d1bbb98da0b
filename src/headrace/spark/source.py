"""The data source `nats`: the entry point for Spark. It reads options, and creates readers and writers.

Spark runs this in several processes per query, each of which needs at most one of them, so imports are late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from headrace.spark.failure import DataSourceError, readable_errors
from headrace.spark.options import ReadOptions, Use, read_options, write_options
from headrace.spark.reading.rows import columns
from headrace.spark.travel import Traveller

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from headrace.spark.writing.sink import BatchWriter, StreamWriter


class NatsDataSource(Traveller, DataSource):
    """Streams of a NATS server as tables, and tables as messages. docs/spark.md has the options."""

    @classmethod
    def name(cls) -> str:
        return "nats"

    def schema(self) -> str:
        with readable_errors():
            return ", ".join(columns(read_options(self.options, Use.READ)))

    def reader(self, schema: StructType) -> DataSourceReader:
        from headrace.spark.reading.batch_reader import BatchReader
        from headrace.spark.reading.pushdown import PushdownReader

        with readable_errors():
            options = read_options(self.options, Use.BATCH)
            _check_schema(schema, options)
            return PushdownReader(options) if options.filter_pushdown else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from headrace.spark.reading.stream_reader import StreamReader

        with readable_errors():
            options = read_options(self.options, Use.STREAM)
            _check_schema(schema, options)
            return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from headrace.spark.writing.sink import BatchWriter

        with readable_errors():
            return BatchWriter(write_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        from headrace.spark.writing.sink import StreamWriter

        with readable_errors():
            checkpoint = self.options.get("checkpointLocation", "")
            return StreamWriter(write_options(self.options), schema, checkpoint)


def _check_schema(schema: StructType, options: ReadOptions) -> None:
    """A schema given by the user must be this one."""
    if options.json_schema:
        return  # no user has given it
    expected = columns(options)
    given = [f"{field.name} {field.dataType.simpleString()}" for field in schema.fields]
    if given != expected:
        raise DataSourceError(
            f"a message has the columns {', '.join(expected)}, not {', '.join(given)}",
            hint="leave .schema() out, and choose columns with selectExpr()",
        )
