"""Delta: the log of the table, `_delta_log`, lists the files of every version; `deltalake` writes it.

A commit is a new file in the log, which either exists or does not. It holds:

    the files       with their figures, so that readers skip some without opening them
    `txn` (query, batch)                 a snapshot knows the last of each query, so a batch is found again
    `txn` ("headrace", n)                all queries that read streams count in it: two cannot commit at once
    `txn` ("headrace.next.STREAM", n)    the positions, which outlive the log's older entries
    `headrace` in the commit's info      query, batch, positions, rows, dead letters, for the history

Two commits at the same moment: the second one finds the first when it writes. Appends, and an append and a
compaction, do not exclude each other, and the library tries again. A conflict (the same `txn`) raises
`CommitFailedError`: then the table is loaded again and everything is checked again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.errors import UsageError
from headrace.spark.table.batch_files import new_batch_directory, write_files
from headrace.spark.table.delta.actions import add_action, delta_schema, remove_action
from headrace.spark.table.delta.compaction import OPERATION, compact
from headrace.spark.table.delta.files import files_of, spark_schema
from headrace.spark.table.delta.maintenance import expire, remove_orphans
from headrace.spark.table.files import Files, library_uri
from headrace.spark.table.interface import (
    Commit,
    Compacted,
    DataFile,
    Expired,
    Rows,
    StreamPosition,
    TableBusy,
    TableError,
    Version,
    VersionInfo,
    check_continues,
    check_version,
)
from headrace.spark.table.partition_columns import with_partition_columns

if TYPE_CHECKING:
    import pyarrow
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, CommitProperties, RemoveAction
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_COLOR_OR_ARROW = re.compile(r"\x1b\[[0-9;]*m|↳")
INFO = "headrace"
WRITERS = "headrace"
NEXT = "headrace.next."
CREATED = "headrace.created."
ATTEMPTS = 10
FEW_ENTRIES = (8, 256)
JUST_COME = 8
"""Entries that may be newer than the version that is loaded: the library counts from the newest one."""
# The log is read from its newest checkpoint on; writing one takes as long as several commits.
COMMITS_PER_CHECKPOINT = 100
CONFIGURATION: dict[str, str | None] = {
    "delta.checkpointInterval": str(COMMITS_PER_CHECKPOINT),
    "delta.logRetentionDuration": "interval 30 days",
}


class DeltaFormat:
    name = "delta"

    def __init__(
        self,
        spark: SparkSession,
        directory: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        streams: Sequence[str] = (),
    ) -> None:
        self._spark = spark
        self._files = Files(spark, directory)
        self.directory = self._files.root
        self._uri = library_uri(self.directory)
        self._storage = dict(storage_options or {})
        self._streams = tuple(streams)
        self._table: DeltaTable | None = None
        self._known: tuple[int, Commit | None] = (-1, None)  # the latest commit as of a version

    # -- what there is

    def exists(self) -> bool:
        from deltalake import DeltaTable

        with self._readable_errors():
            return self._table is not None or DeltaTable.is_deltatable(self._uri, self._storage or None)

    def create(self, schema: StructType, partition_by: Sequence[str]) -> None:
        from deltalake import DeltaTable

        wanted = delta_schema(schema)
        with self._readable_errors():
            self._table = DeltaTable.create(
                self._uri,
                wanted,
                mode="ignore",
                partition_by=list(partition_by),
                configuration=CONFIGURATION,
                storage_options=self._storage or None,
            )

    def schema(self) -> StructType:
        return spark_schema(self.load())

    def version(self) -> int:
        return self.load().version()

    def last_batch(self, query: str) -> int | None:
        return self.load().transaction_version(query)

    def latest(self) -> Commit | None:
        """From the newest entries of the log or, if those are gone, from the snapshot."""
        table = self.load()
        version, commit = self._known
        if table.version() > version:
            found = self._newest_commit(table, table.version() - version)
            if found is None and version < 0:
                found = self._from_snapshot(table)
            self._known = table.version(), found or commit
        return self._known[1]

    def _newest_commit(self, table: DeltaTable, entries: int) -> Commit | None:
        """Of a query that read streams, among this many entries of the log, which is read from its end."""
        entries += JUST_COME
        for limit in sorted({min(entries, few) for few in (*FEW_ENTRIES, entries)}):
            for info in _history(table, limit):
                if info.commit is not None and info.commit.positions:
                    return info.commit
        return None

    def versions(self) -> list[VersionInfo]:
        return _history(self.load(), None)

    def files(self, version: Version | None = None) -> list[DataFile]:
        return files_of(self._at(version))

    def read(self, spark: SparkSession, version: Version | None = None) -> DataFrame:
        table = self._at(version)
        schema = spark_schema(table)
        files = [file.path for file in files_of(table)]
        partition_by = table.metadata().partition_columns
        return with_partition_columns(spark, self._files, files, schema, partition_by)

    # -- commits

    def write(self, rows: Rows, batch: int) -> list[DataFile]:
        partition_by = self.load().metadata().partition_columns
        return write_files(rows, self._files, new_batch_directory(batch), partition_by)

    def commit(self, commit: Commit, files: Sequence[DataFile]) -> None:
        self.replace(commit, (), files)

    def replace(self, commit: Commit, removed: Sequence[DataFile], added: Sequence[DataFile]) -> None:
        now = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [remove_action(file, now) for file in removed]
        actions += [add_action(file, now) for file in added]
        gone = {file.path for file in removed}

        def write(table: DeltaTable, properties: CommitProperties) -> None:
            if gone:
                self._check_live(table, gone)
                properties.max_commit_retries = 0  # for exactly this version, in which they are live
            _add(table, actions, properties)

        self._commit_once(commit, write)

    def _check_live(self, table: DeltaTable, paths: set[str]) -> None:
        """The library does not notice that a compaction has replaced a file that should be removed."""
        if not paths <= {file.path for file in files_of(table)}:
            raise TableBusy(
                f"files of the table in {self.directory} were compacted meanwhile",
                hint="try again, and do not compact it at the same time",
            )

    def upsert(
        self,
        commit: Commit,
        rows: pyarrow.Table,
        key: Sequence[str],
        deleted: pyarrow.Table,
        *,
        only_after: int | None = None,
    ) -> None:
        from headrace.spark.table.delta.upsert import merge

        def write(table: DeltaTable, properties: CommitProperties) -> None:
            check_version(table.version(), only_after, self.directory)
            properties.max_commit_retries = 0  # with another commit's rows, the merge may be different
            merge(table, rows, key, deleted, properties)
            if (
                table.transaction_version(commit.query) != commit.batch
            ):  # nothing changed, so nothing was written
                _add(table, [], properties)

        self._commit_once(commit, write)

    def evolve(self, schema: StructType) -> None:
        from headrace.spark.table.delta.evolution import evolve

        evolve(self._spark, self._files, self.load(), schema)

    def _commit_once(self, commit: Commit, write: Callable[[DeltaTable, CommitProperties], None]) -> None:
        """Let `write` commit, unless this batch is in the table already."""
        from deltalake.exceptions import CommitFailedError

        for attempt in range(ATTEMPTS):
            table = self.load()
            last = table.transaction_version(commit.query)
            if last is not None and last >= commit.batch:
                return
            check_continues(self.latest() if commit.positions else None, commit, self.directory)
            try:
                write(table, self._properties(table, commit))
            except CommitFailedError as error:
                if attempt == ATTEMPTS - 1:
                    raise TableBusy(
                        f"batch {commit.batch} could not be committed to the table in {self.directory}: "
                        f"{in_one_line(error)}",
                        hint="stop the other programs that write this table",
                    ) from None
                time.sleep(0.05 * attempt)
            else:
                self._checkpoint()
                return

    def _properties(self, table: DeltaTable, commit: Commit) -> CommitProperties:
        from deltalake.transaction import CommitProperties, Transaction

        transactions = [Transaction(commit.query, commit.batch)]
        if commit.positions:
            transactions.append(Transaction(WRITERS, (table.transaction_version(WRITERS) or 0) + 1))
        for stream, position in commit.positions.items():
            transactions.append(Transaction(NEXT + stream, position.next))
            transactions.append(Transaction(CREATED + stream, position.created))
        return CommitProperties(custom_metadata={INFO: commit.to_json()}, app_transactions=transactions)

    def _checkpoint(self) -> None:
        """Write a checkpoint of the log when it is time; after the commit, which does not need it."""
        table = self.load()
        if table.version() % COMMITS_PER_CHECKPOINT == 0:
            table.create_checkpoint()

    # -- maintenance

    def compact(self) -> Compacted:
        return compact(self._spark, self._files, self.load())

    def expire(self, older_than_seconds: float) -> Expired:
        return expire(self.load(), self._files, older_than_seconds)

    def remove_orphans(self, older_than_seconds: float) -> int:
        return remove_orphans(self.load(), self._files, older_than_seconds)

    # -- loading

    def load(self) -> DeltaTable:
        """The newest version. Only what is new in the log is read."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        with self._readable_errors():
            if self._table is None:
                try:
                    self._table = DeltaTable(self._uri, storage_options=self._storage or None)
                except TableNotFoundError:
                    raise UsageError(f"there is no Delta table in {self.directory}") from None
            else:
                self._table.update_incremental()
        return self._table

    @contextmanager
    def _readable_errors(self) -> Iterator[None]:
        """Turn the library's errors into ours."""
        from deltalake.exceptions import DeltaError

        try:
            yield
        except (DeltaError, OSError) as error:
            raise TableError(
                f"cannot use the Delta table in {self.directory}: {in_one_line(error)}",
                hint="check the directory, and for an object store --storage-option",
            ) from error

    def _at(self, version: Version | None) -> DeltaTable:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        if version is None:
            return self.load()
        table = DeltaTable(self._uri, storage_options=self._storage or None)
        hint = f"`headrace table history {self.directory}` lists them"
        # The library takes the oldest version for any time before it.
        if isinstance(version, datetime) and version < _history(table, None)[-1].time:
            raise UsageError(f"the table in {self.directory} has no version of {version}", hint=hint)
        newest = table.version()
        if isinstance(version, int) and version > newest:
            raise UsageError(
                f"the table in {self.directory} has no version {version}: the newest is {newest}", hint=hint
            )
        try:
            table.load_as_version(version)
        except (DeltaError, ValueError) as error:
            raise UsageError(
                f"the table in {self.directory} has no version {version}: {in_one_line(error)}", hint=hint
            ) from None
        return table

    def _from_snapshot(self, table: DeltaTable) -> Commit | None:
        positions = {}
        for stream in self._streams:
            found = table.transaction_version(NEXT + stream)
            if found is not None:
                created = table.transaction_version(CREATED + stream) or 0
                positions[stream] = StreamPosition(found, created)
        return Commit("an earlier query", -1, positions) if positions else None


def _history(table: DeltaTable, limit: int | None) -> list[VersionInfo]:
    found = []
    for entry in table.history(limit):
        commit = entry.get(INFO)
        found.append(
            VersionInfo(
                version=entry["version"],
                time=datetime.fromtimestamp(entry.get("timestamp", 0) / 1000, UTC),
                operation=str(entry.get(OPERATION) or entry.get("operation", "")),
                commit=Commit.from_json(commit) if isinstance(commit, dict) else None,
            )
        )
    return found


def in_one_line(error: Exception) -> str:
    """The library puts causes on separate lines, with colored arrows."""
    lines = _COLOR_OR_ARROW.sub("", str(error)).splitlines()
    return ": ".join(line.strip() for line in lines if line.strip())


def _add(
    table: DeltaTable, actions: Sequence[AddAction | RemoveAction], properties: CommitProperties
) -> None:
    table.create_write_transaction(
        list(actions),
        "append",
        table.schema(),
        table.metadata().partition_columns,
        commit_properties=properties,
        post_commithook_properties=_no_hooks(),
    )


def _no_hooks() -> Any:
    from deltalake.transaction import PostCommitHookProperties

    return PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
