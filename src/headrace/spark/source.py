"""The data source `nats`: the entry point for Spark. It reads options, and creates readers and writers."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from headrace.spark.batch_reader import BatchReader
from headrace.spark.failure import DataSourceError, readable_errors
from headrace.spark.options import Use, read_options, write_options
from headrace.spark.pushdown import PushdownReader
from headrace.spark.rows import columns
from headrace.spark.sink import BatchWriter, StreamWriter
from headrace.spark.stream_reader import StreamReader


class NatsDataSource(DataSource):
    """Streams of a NATS server as tables, and tables as messages. docs/spark.md has the options."""

    @classmethod
    def name(cls) -> str:
        return "nats"

    def schema(self) -> str:
        with readable_errors():
            options = read_options(self.options, Use.READ)
            return ", ".join(columns(include_headers=options.include_headers))

    def reader(self, schema: StructType) -> DataSourceReader:
        with readable_errors():
            options = read_options(self.options, Use.BATCH)
            _check_schema(schema, options.include_headers)
            return PushdownReader(options) if options.filter_pushdown else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        with readable_errors():
            options = read_options(self.options, Use.STREAM)
            _check_schema(schema, options.include_headers)
            return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        with readable_errors():
            return BatchWriter(write_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        with readable_errors():
            return StreamWriter(write_options(self.options), schema)


def _check_schema(schema: StructType, include_headers: bool) -> None:
    """A schema given by the user must be this one."""
    expected = columns(include_headers=include_headers)
    given = [f"{field.name} {field.dataType.simpleString()}" for field in schema.fields]
    if given != expected:
        raise DataSourceError(
            f"a message has the columns {', '.join(expected)}, not {', '.join(given)}",
            hint="leave .schema() out, and choose columns with selectExpr()",
        )
