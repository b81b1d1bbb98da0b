"""A Spark driver that lands a stream, and is killed at a chosen moment of a chosen batch.

    python -m tests.spark.land_and_die URL STREAM DIRECTORY ROWS_PER_BATCH [MOMENT BATCH]

It ends when all messages that were there at its start have landed. Restarted, it resumes.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.spark import land
from headrace.spark.session import spark_session
from headrace.spark.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOMENTS = {
    "before offsets": "Spark has recorded the batch before, and not yet what this one is to hold",
    "after offsets": "Spark has recorded what the batch is to hold; nothing of it is written",
    "staged": "all files of the batch are written, none is in the table",
    "half in place": "some files of the batch are in the table",
    "in place": "the batch is in the table, and Spark has not recorded that",
}


def die() -> None:
    """With Java and all workers."""
    os.killpg(0, signal.SIGKILL)


class MortalTable(Table):
    moment = ""
    batch = -1

    def write_batch(self, rows: DataFrame, batch: int) -> None:
        if batch != self.batch:
            super().write_batch(rows, batch)
            return
        if self.moment == "after offsets":
            die()
        rename = self.files.rename
        renamed = 0

        def count_renames(path: str, to: str) -> None:
            nonlocal renamed
            if self.moment == "staged" or (self.moment == "half in place" and renamed):
                die()
            rename(path, to)
            renamed += 1

        self.files.rename = count_renames  # type: ignore[method-assign]
        super().write_batch(rows, batch)
        die()


def die_when_recorded(commit: Path) -> None:
    while not commit.exists():
        time.sleep(0.0005)
    die()


def main() -> None:
    url, stream, directory, rows_per_batch, *fate = sys.argv[1:]
    settings = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    spark = spark_session("land", master="local[2]", settings=settings)
    if fate:
        MortalTable.moment, MortalTable.batch = fate[0], int(fate[1])
        land.Table = MortalTable  # type: ignore[misc]
    if MortalTable.moment == "before offsets":
        commit = Path(directory, "_headrace", "checkpoint", "commits", str(MortalTable.batch - 1))
        threading.Thread(target=die_when_recorded, args=(commit,), daemon=True).start()
    landing = land.Landing(
        stream, directory, {"servers": url, "minPartitions": "2"}, "none", rows_per_batch=int(rows_per_batch)
    )
    land.start_landing(spark, landing, once=True).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
