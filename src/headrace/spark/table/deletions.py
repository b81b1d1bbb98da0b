"""Which keys were deleted while dead letters wait: a retry must not bring them back.

A table with a key forgets a key that is deleted. A dead letter that is older than the deletion would set the
key again when it is retried. So as long as there are dead letters, deletions are kept: key and `seq`, in
plain Parquet files below `_headrace/deletions`.

An entry says that a message deleted a key, which is true forever: it may be there twice, or before its batch
is committed. So files are only added, always before the batch is committed, and again if it is repeated.
`Retry` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from headrace.spark.table.files import Files
from headrace.spark.table.layout import DELETIONS

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SEQUENCE = "seq"
INDEX = "__headrace_index"
ENTRY = "__headrace_entry_"


class Deletions:
    """The deletions of one table. `are_needed` says whether there are dead letters."""

    def __init__(self, spark: SparkSession, files: Files, are_needed: Callable[[], bool]) -> None:
        self._spark = spark
        self._files = files
        self._are_needed = are_needed

    def add(self, deleted: pyarrow.Table) -> None:
        """Add what a batch deletes: columns of the key, and `seq`. Called before the batch is committed."""
        if len(deleted) and self._are_needed():
            self._write(self._spark.createDataFrame(deleted))

    def names(self) -> frozenset[str]:
        """The files that there are now."""
        found = (file.path for file in self._files.list(DELETIONS) if file.path.endswith(".parquet"))
        # Spark writes below `_temporary`, and those files do not count yet.
        return frozenset(path for path in found if not path.startswith(("_", ".")))

    def without(
        self, rows: pyarrow.Table, key: Sequence[str], schema: StructType, names: Iterable[str]
    ) -> pyarrow.Table:
        """The rows whose key was not deleted by a later message, according to these files."""
        from pyspark.sql import functions

        if not len(rows) or not names:
            return rows
        import pyarrow

        known = self._read(key, schema, names)
        known = known.toDF(*(ENTRY + name for name in known.columns))
        index = pyarrow.array(range(len(rows)), pyarrow.int64())
        given = self._spark.createDataFrame(rows.select([*key, SEQUENCE]).append_column(INDEX, index))
        same = [functions.col(_quoted(name)) == functions.col(_quoted(ENTRY + name)) for name in key]
        is_older = functions.col(SEQUENCE) < functions.col(ENTRY + SEQUENCE)
        kept = given.join(known, reduce(and_, same) & is_older, "left_anti").select(INDEX)
        return rows.take(pyarrow.array(sorted(row[0] for row in kept.collect()), pyarrow.int64()))

    def forget(self, key: Sequence[str], schema: StructType) -> None:
        """Remove what is unneeded: everything if there are no dead letters, or all but the last of a key."""
        names = self.names()  # first: a letter that these entries are for is in its table by now
        if not names:
            return
        if self._are_needed():
            if len(names) == 1:
                return
            self._write(self._read(key, schema, names))
        for name in names:
            self._files.delete(f"{DELETIONS}/{name}")

    def _read(self, key: Sequence[str], schema: StructType, names: Iterable[str]) -> DataFrame:
        """The last deletion of each key. Numbers of a key may have become wider since."""
        from pyspark.sql import functions
        from pyspark.sql.types import StructType

        wanted = StructType([schema[name] for name in dict.fromkeys([*key, SEQUENCE])])
        paths = (self._files.at(f"{DELETIONS}/{name}") for name in names)
        rows = self._spark.read.schema(wanted).parquet(*paths)
        last = functions.max(SEQUENCE).alias(SEQUENCE)
        return rows.groupBy(*(_quoted(name) for name in key)).agg(last).select(*map(_quoted, wanted.names))

    def _write(self, rows: DataFrame) -> None:
        rows.coalesce(1).write.mode("append").parquet(self._files.at(DELETIONS))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
