"""Small batches of typed rows are landed by this process, without a Spark job.

Spark still decides what a batch is, and records it in its checkpoint. But its messages are read here
(`reading/small.py`), their payloads are decoded by the same code that decodes them in Spark's tasks, and
pyarrow writes the file that is then committed like any other. Most of what that decoder leaves to Spark does
not fit, as the rules in Python find out. The rest, if there is little of it, goes to Spark as values of a
query.

    5,000 messages, three queries on two cores      1.2 to 1.8 s with Spark's tasks, 0.1 to 0.2 s like this
                                                    (`python -m benchmarks.spark.pipeline`)

Whenever anything is not as simple as that, `land` gives the batch back, before anything is committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

from headrace.spark.options import JSON_SCHEMA
from headrace.spark.payload.arrow_types import arrow_type
from headrace.spark.payload.decode import DEAD_LETTER_COLUMNS, FIELDS, PROBLEM, decode
from headrace.spark.payload.decoding import DECODED, METADATA, Decoding
from headrace.spark.payload.explanation import explained_rows
from headrace.spark.payload.json_rules import json_problem
from headrace.spark.reading.small import SmallReader
from headrace.spark.table.arrow_files import codec_of
from headrace.spark.table.bad_rows import ToTable
from headrace.spark.table.interface import ArrowRows, Commit, TableFormat
from headrace.spark.table.query_progress import QueryProgress
from headrace.spark.table.schemas import nullable
from headrace.spark.table.typed_rows import TypedRows, commit_batch

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FEW_LEFT, FEW_LEFT_BYTES = 200, 64 << 10
"""This many payloads are short enough for the text of a query."""
PLACE = "place"


def small_batches(
    spark: SparkSession,
    typed: TypedRows | None,
    options: Mapping[str, str],
    table: TableFormat,
    partition_by: Sequence[str],
) -> SmallBatches | None:
    """For a query with these options of its source; None if only Spark can process its rows."""
    if typed is None or not options.get(JSON_SCHEMA) or typed.decoding.key or typed.decoding.subject:
        return None
    if set(partition_by) != set(typed.also) or (partition_by and table.name == "iceberg"):
        return None
    codec = codec_of(spark)
    if codec is None or not isinstance(typed.bad_rows, ToTable):
        return None
    return SmallBatches(typed, typed.bad_rows, SmallReader(options), codec)


@dataclass(frozen=True)
class SmallBatches:
    typed: TypedRows
    letters: ToTable
    reader: SmallReader
    codec: str

    def land(
        self, spark: SparkSession, table: TableFormat, commit: Commit, progress: QueryProgress
    ) -> Commit | None:
        """The commit, with what was counted; None if Spark has to land this batch."""
        offsets = progress.offsets(commit.batch)
        if offsets is None or not self._has_same_columns(table):
            return None
        messages = self.reader.read(*offsets)
        decided = None if messages is None else self._decided(spark, messages)
        if messages is None or decided is None:
            return None
        rows, bad = decided
        try:
            files = table.write(ArrowRows(rows, self.codec), commit.batch)
        except (OSError, Py4JJavaError):
            return None
        commit = replace(commit, rows=rows.num_rows, dead_letters=bad.num_rows, read=messages.num_rows)
        if bad.num_rows:
            letters = explained_rows(bad, self.typed.decoding, commit.batch)
            self.letters.take(ArrowRows(letters.cast(_arrow_schema(DEAD_LETTER_COLUMNS)), self.codec), commit)
        commit_batch(table, commit, files)
        return commit

    def _has_same_columns(self, table: TableFormat) -> bool:
        """If not, those of the table are wider, and the rows must be converted."""
        types = {column.name: column.dataType for column in nullable(table.schema())}
        columns = nullable(self.typed.decoding.columns)
        return all(types.get(column.name) == column.dataType for column in columns)

    def _decided(
        self, spark: SparkSession, messages: pyarrow.Table
    ) -> tuple[pyarrow.Table, pyarrow.Table] | None:
        """The rows of the table, and the messages that do not fit, with their problem."""
        import pyarrow.compute

        is_decoded = messages.column(DECODED).is_valid()
        rows = self._rows(messages.filter(is_decoded), messages.column(DECODED).filter(is_decoded))
        left = messages.filter(pyarrow.compute.invert(is_decoded))
        payloads = left.column("data").to_pylist()
        if len(payloads) > FEW_LEFT or sum(map(len, payloads)) > FEW_LEFT_BYTES:
            self.reader.leave_to_spark()
            return None
        problems, late = _judged(spark, payloads, self.typed.decoding)
        fits = pyarrow.array([problem is None for problem in problems], pyarrow.bool_())
        if late is not None:
            rows = pyarrow.concat_tables([rows, self._rows(left.filter(fits), late)])
        reasons = pyarrow.array([problem for problem in problems if problem is not None], pyarrow.string())
        return rows, _misfits(left.filter(pyarrow.compute.invert(fits)), reasons)

    def _rows(self, messages: pyarrow.Table, fields: pyarrow.ChunkedArray) -> pyarrow.Table:
        """As the table has them."""
        import pyarrow.compute

        decoding = self.typed.decoding
        columns = [messages.column(name) for name in decoding.metadata]
        columns += [pyarrow.compute.struct_field(fields, [field.name]) for field in decoding.schema.fields]
        rows = pyarrow.table(columns, decoding.columns.names).cast(_arrow_schema(decoding.columns))
        for name in self.typed.also:
            rows = rows.append_column(name, _MADE[name](messages.column("timestamp")))
        return rows


def _judged(
    spark: SparkSession, payloads: Sequence[bytes], decoding: Decoding
) -> tuple[list[str | None], pyarrow.ChunkedArray | None]:
    """The problems of these payloads, and the fields of those that have none.

    What the rules in Python refuse, Spark refuses, too; tests compare them. Spark is asked about the others.
    """
    problems = [json_problem(payload, decoding.schema) for payload in payloads]
    asked = [place for place, problem in enumerate(problems) if problem is None]
    if not asked:
        return problems, None
    values = ", ".join(f"({place}, X'{payloads[place].hex()}')" for place in asked)
    decoded = decode(spark.sql(f"SELECT * FROM VALUES {values} AS payloads({PLACE}, data)"), decoding)
    found = decoded.select(PLACE, PROBLEM, FIELDS).toArrow().sort_by(PLACE)
    for place, problem in zip(asked, found.column(PROBLEM).to_pylist(), strict=True):
        problems[place] = problem
    late = found.filter(found.column(PROBLEM).is_null())
    return problems, late.column(FIELDS) if late.num_rows else None


def _misfits(messages: pyarrow.Table, reasons: pyarrow.Array) -> pyarrow.Table:
    """As `payload.decode.misfits` makes them."""
    import pyarrow

    names = [name for name in (*METADATA, "data") if name in messages.column_names]
    bad = messages.select(names).append_column("reason", reasons)
    if "headers" not in names:
        kind = arrow_type(METADATA["headers"].dataType)
        bad = bad.add_column(len(METADATA) - 1, "headers", pyarrow.nulls(len(bad), kind))
    return bad


def _arrow_schema(columns: StructType) -> pyarrow.Schema:
    import pyarrow

    return pyarrow.schema([(field.name, arrow_type(field.dataType)) for field in columns.fields])


def _date(times: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    import pyarrow

    return times.cast(pyarrow.date32())


def _hour(times: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    import pyarrow.compute

    return pyarrow.compute.hour(times).cast(pyarrow.int32())


_MADE = {"date": _date, "hour": _hour}
"""The columns of `layout.PARTITIONS`."""
