"""What happens in a batch: Spark calls `write_batch`, through `foreachBatch`, for one batch after another.

    1. a batch that the table already has is not landed again: Spark repeats one that it has not recorded
    2. messages that could not be decoded go elsewhere
    3. the rows are written as files, which no reader sees
    4. one commit adds them to the table, with the batch and the positions of the streams
    5. from time to time small files are merged and old versions removed, in parallel if the query continues

A crash leaves the state between two of these steps; started again, Spark repeats the batch from the first.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.spark.failure import readable_errors
from headrace.spark.progress import Tally
from headrace.spark.table.background import Background
from headrace.spark.table.interface import Commit, TableFormat
from headrace.spark.table.keyed_rows import latest_of_each
from headrace.spark.table.query_progress import QueryProgress
from headrace.spark.table.schemas import conform
from headrace.spark.table.small_batches import SmallBatches
from headrace.spark.table.typed_rows import TypedRows, commit_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.spark.landing_report import LandingReport

# Files of this size are large enough for a task, and are not merged.
LARGE_BYTES = 128 << 20
# How long older versions can be read, and how long files that nobody committed are kept.
KEEP_SECONDS = 7 * 24 * 3600.0
EXPIRE_EVERY_SECONDS = 3600.0


class TableWriter:
    """Writes the batches of one query into a table. `compact_after` 0 means never to compact.

    With `typed` the rows are messages that it has decoded, and `small` may land them without Spark; other
    rows may have a `key`. `may_have_state` says whether the query may keep state (windows, counts). What was
    committed is added to `tally`, and reported to `report`.

    `beside` opens the table a second time: small files are then merged while batches continue.
    """

    def __init__(
        self,
        table: TableFormat,
        progress: QueryProgress,
        *,
        typed: TypedRows | None = None,
        small: SmallBatches | None = None,
        key: Sequence[str] = (),
        may_have_state: bool = False,
        compact_after: int = 0,
        beside: Callable[[], TableFormat] | None = None,
        tally: Tally | None = None,
        report: LandingReport | None = None,
    ) -> None:
        self.table = table
        self._progress = progress
        self._typed = typed
        self._small = small
        self._key = key
        self._may_have_state = may_have_state
        self._compact_after = compact_after
        self._beside = beside
        self._background = Background()
        self._tally = tally or Tally()
        self._report = report
        self._expired_at: float | None = None

    def write_batch(self, rows: DataFrame, batch: int) -> None:
        """For `foreachBatch`."""
        with readable_errors():
            began = time.monotonic()
            last = self.table.last_batch(self._progress.query)
            if last is None or last < batch:
                span = self._progress.span(batch)
                commit = Commit(self._progress.query, batch, span.ends, starts=span.starts)
                commit = self._land(rows, commit)
                self._tally.add(
                    commit.rows,
                    commit.dead_letters,
                    deletions=commit.deletions,
                    batch=commit.batch,
                    read=commit.read,
                )
                if self._report is not None:
                    self._report.landed(commit, time.monotonic() - began)
                self._maintain(batch)
            elif self._may_have_state:
                # Spark writes the state of a batch while its rows are computed; the next one begins with it.
                rows.write.format("noop").mode("overwrite").save()

    def _land(self, rows: DataFrame, commit: Commit) -> Commit:
        if self._typed is None:
            return self._add(rows, commit)
        landed = self._small and self._small.land(rows.sparkSession, self.table, commit, self._progress)
        return landed or self._typed.land(self.table, rows, commit)

    def _add(self, rows: DataFrame, commit: Commit) -> Commit:
        """Rows as they are."""
        if self._key:
            changed, deleted = latest_of_each(rows, self._key, self.table.schema())
            commit = replace(commit, rows=len(changed))
            self.table.upsert(commit, changed, self._key, deleted)
            return commit
        files = self.table.write(conform(rows, self.table.schema()), commit.batch)
        written = sum(file.rows for file in files)
        # Each message is a row. For the result of a query, only Spark knows what it was made from.
        commit = replace(commit, rows=written, read=None if self._may_have_state else written)
        commit_batch(self.table, commit, files)
        return commit

    def _maintain(self, batch: int) -> None:
        """Counting files lists the table, so it is not done for every batch."""
        self._background.check()
        if not self._compact_after or not batch or batch % self._compact_after:
            return
        beside = self._beside
        if beside is None:
            self._tidy(self.table)
        else:
            self._background.run(lambda: self._tidy(beside()))

    def _tidy(self, table: TableFormat) -> None:
        small = Counter(
            tuple(sorted(file.partition.items())) for file in table.files() if file.size < LARGE_BYTES
        )
        if any(count >= self._compact_after for count in small.values()):
            table.compact()
        if self._expired_at is None or time.monotonic() - self._expired_at > EXPIRE_EVERY_SECONDS:
            self._expired_at = time.monotonic()
            table.expire(KEEP_SECONDS)
            table.remove_orphans(KEEP_SECONDS)
