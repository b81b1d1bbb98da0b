"""A table of Parquet files to which a streaming query appends: every batch is in it exactly once.

Spark's own file sink keeps a log of valid files next to them, which only Spark reads and which makes
compaction impossible. Here a batch goes through `foreachBatch` instead, in three steps, each of which may be
repeated:

    1. write its rows into files under `staging`
    2. remove what an interrupted attempt has left of this batch in the table
    3. rename the files into the table

Spark records the batch afterwards. If it is killed at any moment before, it writes the same batch again, and
step 2 makes sure that nothing is duplicated.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.errors import UsageError
from headrace.spark.table.compaction import Compaction
from headrace.spark.table.files import Files
from headrace.spark.table.layout import CHECKPOINT, DESCRIPTION, STAGING, content_of, file_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "parquet"


class Table:
    """One table, written by one query at a time.

    `origin` says where the rows come from; a directory with another origin is refused.
    """

    def __init__(
        self,
        spark: SparkSession,
        directory: str,
        *,
        origin: str,
        partition_by: Sequence[str] = (),
        compact_after: int = 0,
    ) -> None:
        self.files = Files(spark, directory)
        self.directory = self.files.root
        self.partition_by = tuple(partition_by)
        self.compaction = Compaction(spark, self.files, compact_after, FORMAT)
        self._wrote = False
        self._describe(origin)
        self.compaction.finish()

    @property
    def checkpoint(self) -> str:
        return self.files.at(CHECKPOINT)

    def write_batch(self, rows: DataFrame, batch: int) -> None:
        """For `foreachBatch`."""
        staged = f"{STAGING}/batch-{batch}"
        writer = rows.write.mode("overwrite")
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        writer.format(FORMAT).save(self.files.at(staged))
        if not self._wrote:
            self._replace(batch)  # within a run no batch is repeated, so later ones need no check
            self._wrote = True
        numbers: dict[str, int] = {}
        for file in self.files.list(staged):
            if file.name.startswith(("_", ".")):
                continue
            number = numbers[file.directory] = numbers.get(file.directory, -1) + 1
            directory = f"{file.directory}/" if file.directory else ""
            target = f"{directory}{file_name(batch, batch, number, FORMAT)}"
            self.files.rename(f"{staged}/{file.path}", target)
        self.files.delete(staged)
        self.compaction.run(before=batch)

    def _replace(self, batch: int) -> None:
        """Remove files of this batch that are in the table already."""
        for file in self.files.list():
            content = content_of(file.name)
            if content is None or file.path.startswith("_") or content.last < batch:
                continue
            if content.last > batch:
                raise UsageError(
                    f"the table in {self.directory} holds batch {content.last}, but the query is at {batch}: "
                    "its checkpoint was removed or replaced",
                    hint="choose another directory for the table, or restore the checkpoint",
                )
            self.files.delete(file.path)

    def _describe(self, origin: str) -> None:
        wanted = {"origin": origin, "partition_by": list(self.partition_by), "format": FORMAT}
        if not self.files.exists(DESCRIPTION):
            if any(not file.path.startswith("_") for file in self.files.list()):
                raise UsageError(
                    f"{self.directory} contains files that do not belong to this table",
                    hint="choose another directory, or empty it",
                )
            self.files.write(DESCRIPTION, json.dumps(wanted))
            return
        found = json.loads(self.files.read(DESCRIPTION))
        for name, value in wanted.items():
            if found.get(name) != value:
                raise UsageError(
                    f"the table in {self.directory} has {name} {found.get(name)}, not {value}",
                    hint="choose another directory, or the settings it was created with",
                )
