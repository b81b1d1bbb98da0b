"""A Spark driver that lands a stream, and is killed at a chosen moment of a chosen batch.

    python -m tests.spark.land_and_die FORMAT URL STREAM DIRECTORY ROWS_PER_BATCH [MOMENT BATCH]

It ends when all messages that were there at its start have landed. Restarted, it resumes. Every third batch
it merges the small files of the table.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.spark import land
from headrace.spark.session import spark_session
from headrace.spark.table.interface import Settings
from headrace.spark.table.writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOMENTS = {
    "before offsets": "Spark has recorded the batch before, and not yet what this one is to hold",
    "after offsets": "Spark has recorded what the batch is to hold; nothing of it is written",
    "written": "all files of the batch are written, none is in the table",
    "half in place": "some files of the batch are in the table; only plain Parquet has this moment",
    "half committed": "the metadata of the commit is written, and the catalog does not name it; only Iceberg",
    "committed": "the batch is in the table, and Spark has not recorded that",
    "before compaction": "the batch is in the table, and files are about to be merged",
    "half compacted": "the same in the commit of a compaction; only Iceberg",
    "after compaction": "files were merged, and Spark has not recorded the batch",
}
ONLY_PARQUET = ("half in place",)
ONLY_ICEBERG = ("half committed", "half compacted")


def die() -> None:
    """With Java and all workers."""
    os.killpg(0, signal.SIGKILL)


class MortalWriter(TableWriter):
    moment = ""
    batch = -1

    def write_batch(self, rows: DataFrame, batch: int) -> None:
        if batch == self.batch:
            if self.moment == "after offsets":
                die()
            self._arm()
        super().write_batch(rows, batch)

    def _arm(self) -> None:
        table: Any = self.table
        self._die_at("written", table, "commit", before=True)
        self._die_at("committed", table, "commit", before=False)
        self._die_at("before compaction", table, "compact", before=True)
        self._die_at("after compaction", table, "compact", before=False)
        if self.moment in ONLY_ICEBERG:
            from tests.spark.table.iceberg_committer import die_at

            name = "commit" if self.moment == "half committed" else "compact"
            self._before(table, name, lambda: die_at("metadata is written", die))
        if self.moment == "half in place":
            rename = table._files.rename

            def rename_once(path: str, to: str) -> None:
                rename(path, to)
                die()

            table._files.rename = rename_once
        if "compact" in self.moment:
            self._compact_after = 1

    def _before(self, table: Any, name: str, work: Callable[[], None]) -> None:
        method = getattr(table, name)

        def after_work(*arguments: Any) -> Any:
            work()
            return method(*arguments)

        setattr(table, name, after_work)

    def _die_at(self, moment: str, table: Any, name: str, *, before: bool) -> None:
        if self.moment != moment:
            return
        method = getattr(table, name)

        def mortal(*arguments: Any) -> None:
            if not before:
                method(*arguments)
            die()

        setattr(table, name, mortal)


def die_when_recorded(commit: Path) -> None:
    while not commit.exists():
        time.sleep(0.0005)
    die()


def main() -> None:
    form, url, stream, directory, rows_per_batch, *fate = sys.argv[1:]
    settings = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    spark = spark_session("land", master="local[2]", settings=settings)
    if fate:
        MortalWriter.moment, MortalWriter.batch = fate[0], int(fate[1])
        land.TableWriter = MortalWriter  # type: ignore[misc]
    if MortalWriter.moment == "before offsets":
        commit = Path(directory, "_headrace", "checkpoint", "commits", str(MortalWriter.batch - 1))
        threading.Thread(target=die_when_recorded, args=(commit,), daemon=True).start()
    landing = land.Landing(
        stream,
        directory,
        {"servers": url, "minPartitions": "2"},
        "none",
        rows_per_batch=int(rows_per_batch),
        compact_after=3,
        settings=Settings(form),
    )
    land.start_landing(spark, landing, once=True).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
