"""Messages become typed rows on their way into a table.

Decoding is a part of the query, so that it is planned once and not for every batch. A batch is read and
decoded once. The same pass counts the messages that do not fit, and only if there are some, a second
pass finds them: usually few, which the driver explains; otherwise Spark's Python processes do. With a key,
the latest row of each key goes to the driver, and one merge replaces or deletes what the table has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.spark.payload.decode import (
    DELETED,
    FIELDS,
    PROBLEM,
    dead_letters,
    decode,
    few_dead_letters,
    good_rows,
)
from headrace.spark.payload.decoding import Decoding
from headrace.spark.table.bad_rows import BadRows
from headrace.spark.table.deletions import Deletions
from headrace.spark.table.interface import Commit, DataFile, TableFormat
from headrace.spark.table.keyed_rows import latest_of_each
from headrace.spark.table.schemas import conform

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

READ = "read"
BAD = "bad"
BAD_BYTES = "bad_bytes"
FEW_LETTERS, FEW_BYTES = 1_000, 16 << 20
"""This many dead letters of a batch fit into the memory of any driver; each may have 64 KB of headers."""


@dataclass(frozen=True)
class TypedRows:
    decoding: Decoding
    bad_rows: BadRows
    also: Mapping[str, str] = field(default_factory=dict)
    """Columns of the table that are computed from the message, as SQL: those of its partitions."""
    deletions: Deletions | None = None
    """For a table with a key: what dead letters must not bring back."""

    def decoded(self, rows: DataFrame) -> DataFrame:
        """What the query should read instead of the messages."""
        return decode(rows, self.decoding)

    def schema_of(self, decoded: DataFrame) -> StructType:
        return self.good(decoded).schema

    def good(self, decoded: DataFrame) -> DataFrame:
        return good_rows(decoded, self.decoding, self._also())

    def land(self, table: TableFormat, decoded: DataFrame, commit: Commit) -> Commit:
        """Deal with the bad rows and commit the others. Returns the commit, with what was counted."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812

        counted = Observation()
        is_bad = F.col(PROBLEM).isNotNull()
        size = F.sum(F.when(is_bad, F.length("data")))
        observed = decoded.observe(
            counted, F.count(F.lit(1)).alias(READ), F.count_if(is_bad).alias(BAD), size.alias(BAD_BYTES)
        )
        if self.decoding.key:
            changed, deleted = self.latest(observed, table.schema())
            commit = replace(
                commit,
                rows=len(changed),
                deletions=len(deleted),
                dead_letters=counted.get[BAD],
                read=counted.get[READ],
            )
            self._take_bad_rows(decoded, commit, counted.get[BAD_BYTES])
            if self.deletions is not None:
                self.deletions.add(deleted)
            table.upsert(commit, changed, self.decoding.key, deleted)
            return commit
        files = table.write(conform(self.good(observed), table.schema()), commit.batch)
        rows_written = sum(file.rows for file in files)
        commit = replace(commit, rows=rows_written, dead_letters=counted.get[BAD], read=counted.get[READ])
        self._take_bad_rows(decoded, commit, counted.get[BAD_BYTES])
        commit_batch(table, commit, files)
        return commit

    def _take_bad_rows(self, decoded: DataFrame, commit: Commit, size: int | None) -> None:
        if commit.dead_letters:
            are_few = commit.dead_letters <= FEW_LETTERS and (size or 0) <= FEW_BYTES
            letters_of = few_dead_letters if are_few else dead_letters
            self.bad_rows.take(letters_of(decoded, self.decoding, commit.batch), commit)

    def latest(self, decoded: DataFrame, schema: StructType) -> tuple[pyarrow.Table, pyarrow.Table]:
        """What the messages do to a table with a key."""
        from pyspark.sql import functions as F  # noqa: N812

        columns = [F.col(name) for name in self.decoding.metadata]
        columns += [F.col(FIELDS)[field.name].alias(field.name) for field in self.decoding.fields]
        columns += [column.alias(name) for name, column in self._also().items()]
        rows = decoded.where(F.col(PROBLEM).isNull()).select(*columns, DELETED)
        return latest_of_each(rows, self.decoding.key, schema)

    def _also(self) -> dict[str, Column]:
        from pyspark.sql import functions as F  # noqa: N812

        return {name: F.expr(how) for name, how in self.also.items()}


def commit_batch(table: TableFormat, commit: Commit, files: Sequence[DataFile]) -> None:
    """Commit, unless the batch has no rows and does not advance in its streams."""
    latest = table.latest()
    if files or commit.dead_letters or latest is None or latest.positions != commit.positions:
        table.commit(commit, files)
