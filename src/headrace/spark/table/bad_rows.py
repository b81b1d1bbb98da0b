"""What happens to messages that do not fit: a table of dead letters, a stream, or the end of the query.

They are dealt with before the batch is committed. So a crash in between repeats the batch: the table of dead
letters then has it already, as its own commit says, and a stream drops the ids that it knows, within its
duplicate window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from headrace.spark.table.interface import Commit, Rows, TableError, TableFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FAIL = "fail"
DEAD_LETTER = "dead-letter"
STREAM = "stream:"


class BadRows(Protocol):
    def take(self, letters: DataFrame, commit: Commit) -> None:
        """The dead letters of a batch, with the columns of `payload.decode.DEAD_LETTER_COLUMNS`."""


class ToTable:
    """`open_table` creates the table for the first dead letter. Rows of this process are accepted, too."""

    def __init__(self, open_table: Callable[[], TableFormat]) -> None:
        self._open_table = open_table
        self._table: TableFormat | None = None

    def take(self, letters: Rows, commit: Commit) -> None:
        table = self._table = self._table or self._open_table()
        last = table.last_batch(commit.query)
        if last is None or last < commit.batch:
            files = table.write(letters, commit.batch)
            rows = sum(file.rows for file in files)
            table.commit(replace(commit, positions={}, starts={}, rows=rows), files)


class ToStream:
    """Publishes each as it was, to its subject below the stream's name, with the reason in its headers."""

    def __init__(self, stream: str, options: Mapping[str, str]) -> None:
        self._stream = stream
        self._options = options

    def take(self, letters: DataFrame, commit: Commit) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        about = {"Headrace-Reason": "reason", "Headrace-Stream": "stream", "Headrace-Sequence": "seq"}
        reasons = F.array(
            *(
                F.struct(F.lit(name).alias("key"), F.col(column).cast("string").alias("value"))
                for name, column in about.items()
            )
        )
        before = F.coalesce(F.col("headers"), F.array().cast(letters.schema["headers"].dataType))
        messages = letters.select(
            F.concat(F.lit(f"{self._stream}."), F.col("subject")).alias("subject"),
            F.col("data"),
            F.concat(before, reasons).alias("headers"),
            F.concat_ws(":", F.lit("dead"), F.col("stream"), F.col("seq").cast("string")).alias("msgId"),
        )
        writer = messages.write.format("nats").mode("append").options(**self._options)
        writer.option("stream", self._stream).save()


class Fail:
    def take(self, letters: DataFrame, commit: Commit) -> None:
        first = letters.orderBy("stream", "seq").first()
        if first is not None:
            raise TableError(
                f"message {first['seq']} of the stream {first['stream']} does not fit: {first['reason']}",
                hint="correct the schema, or let it become a dead letter (--on-bad-row dead-letter)",
            )
