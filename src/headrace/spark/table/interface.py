"""What a table is to a query: one interface, and a module for each format that implements it.

A batch becomes part of a table in two steps:

    files = table.write(rows, batch)      Spark writes Parquet files, in parallel; no reader sees them
    table.commit(commit, files)           the format's own library adds them, all at once

The commit holds the query, the number of the batch, and the position in each stream up to which the table is
complete. A batch that is repeated after a crash finds its number (`last_batch`) and does nothing. Files
without a commit are orphans, which nobody reads and `remove_orphans` deletes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, Union

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMATS = ("delta", "iceberg", "parquet")
DEFAULT_FORMAT = "delta"
RETRY = "retry"
"""The writer that lands dead letters; its batches are attempts."""

Version = int | datetime
"""A number that `versions` lists, or a time: the newest version that is not younger."""


class TableError(HeadraceError):
    """The table cannot do what was asked; one line says why, and the hint what to do."""


class TableBusy(TableError):
    """Another query writes this table."""


class TableChanged(TableBusy):
    """The table's version is not the one that was asked for."""


@dataclass(frozen=True)
class Settings:
    """How to reach a table. `format` may be empty: what the table is already, otherwise the default."""

    format: str = ""
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For the libraries that commit: credentials and addresses of an object store. Never stored or shown."""
    catalog: str = ""
    """Iceberg only: a name of pyiceberg's configuration, or a URI; empty is SQLite next to the table."""
    table: str = ""
    """Iceberg only: the name of the table in its catalog."""


@dataclass(frozen=True)
class StreamPosition:
    """A table that has this holds every message of the stream before `next`."""

    next: int
    created: int = 0
    """When the stream was created, in ns: a re-created stream of the same name has a different time."""


@dataclass(frozen=True)
class Commit:
    """Who added what to a table, and up to where it is complete as a result."""

    query: str
    """Spark's id of the query, which its checkpoint keeps; other writers have their own names."""
    batch: int
    positions: Mapping[str, StreamPosition] = field(default_factory=dict)
    rows: int = 0
    dead_letters: int = 0
    deletions: int = 0
    """With a key: how many keys are deleted by their latest message. They are not in `rows`."""
    read: int | None = None
    """The rows of the batch, if they were counted. Not stored."""
    starts: Mapping[str, StreamPosition] = field(default_factory=dict)
    """Where the batch begins, to be compared with the table if another query wrote last. Not stored."""

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "batch": self.batch,
            "positions": {
                stream: {"next": position.next, "created": position.created}
                for stream, position in sorted(self.positions.items())
            },
            "rows": self.rows,
            "dead_letters": self.dead_letters,
            "deletions": self.deletions,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Commit:
        positions = {
            stream: StreamPosition(int(position["next"]), int(position.get("created", 0)))
            for stream, position in value.get("positions", {}).items()
        }
        return cls(
            query=str(value["query"]),
            batch=int(value["batch"]),
            positions=positions,
            rows=int(value.get("rows", 0)),
            dead_letters=int(value.get("dead_letters", 0)),
            deletions=int(value.get("deletions", 0)),
        )


@dataclass(frozen=True)
class ColumnFigures:
    """The figures of one column of a file; `least` and `greatest` are None where the footer does not say."""

    nulls: int | None
    least: Any = None
    greatest: Any = None


@dataclass(frozen=True)
class DataFile:
    """A Parquet file, as its footer describes it."""

    path: str
    """Relative to the table's directory, as the file system has it: not escaped."""
    size: int
    rows: int
    partition: Mapping[str, str | None] = field(default_factory=dict)
    columns: Mapping[str, ColumnFigures] = field(default_factory=dict)
    """Top-level columns that are not structs, lists or maps."""


@dataclass(frozen=True)
class VersionInfo:
    """A line of the history of a table."""

    version: int
    time: datetime
    operation: str
    commit: Commit | None
    """None if it was not a batch: a compaction, a new column, another writer."""


@dataclass(frozen=True)
class Compacted:
    removed: int = 0
    added: int = 0


@dataclass(frozen=True)
class Expired:
    versions: int = 0
    files: int = 0


@dataclass(frozen=True)
class ArrowRows:
    """Rows in this process, which writes them itself: `arrow_files`."""

    table: pyarrow.Table
    codec: str


Rows = Union["DataFrame", ArrowRows]
"""What a table can write."""


class TableFormat(Protocol):
    """One table in one format."""

    name: str
    directory: str

    def exists(self) -> bool: ...

    def create(self, schema: StructType, partition_by: Sequence[str]) -> None:
        """An empty table. The columns of `partition_by` are part of the schema."""

    def schema(self) -> StructType: ...

    def evolve(self, schema: StructType) -> None:
        """Add columns and widen numbers, atomically. Whether that is allowed was decided before."""

    def last_batch(self, query: str) -> int | None:
        """The number of the last batch of a query that is in the table."""

    def latest(self) -> Commit | None:
        """The newest commit of a query that read streams; its positions are those of the table."""

    def write(self, rows: Rows, batch: int) -> Sequence[DataFile]:
        """Write files that no reader sees yet, under a name that nothing else uses."""

    def commit(self, commit: Commit, files: Sequence[DataFile]) -> None:
        """Add the files, unless this batch is in the table already. Raises TableBusy (`check_continues`)."""

    def replace(self, commit: Commit, removed: Sequence[DataFile], added: Sequence[DataFile]) -> None:
        """Add files and remove others that `files` listed, in one commit, unless it is there already."""

    def upsert(
        self,
        commit: Commit,
        rows: pyarrow.Table,
        key: Sequence[str],
        deleted: pyarrow.Table,
        *,
        only_after: int | None = None,
    ) -> None:
        """Replace the rows with the same key, and delete those of `deleted` (key columns and `seq`), in one
        commit. A row with a lower `seq` never replaces one with a higher. With `only_after`, the commit
        is the one that follows this version, or TableChanged is raised."""

    def read(self, spark: SparkSession, version: Version | None = None) -> DataFrame:
        """Exactly the rows of one version; by default of the newest."""

    def files(self, version: Version | None = None) -> list[DataFile]:
        """The files of one version, without figures of their columns."""

    def version(self) -> int: ...

    def versions(self) -> list[VersionInfo]:
        """The newest first."""

    def compact(self) -> Compacted:
        """Merge small files. Readers see the table before or after it, with the same rows."""

    def expire(self, older_than_seconds: float) -> Expired:
        """Forget older versions, and delete the files that only they need."""

    def remove_orphans(self, older_than_seconds: float) -> int:
        """Delete files that no version needs. Returns how many."""


def check_continues(latest: Commit | None, commit: Commit, directory: str) -> None:
    """Raises TableBusy if a batch of another query does not begin exactly where the table ends.

    A query continues its own batches. A new one, whose checkpoint is new, may follow on another that has
    ended, if it starts at the positions that the table has (`headrace land` does). Anything else would land
    messages twice, or leave some out.
    """
    if latest is None or not commit.positions or latest.query == commit.query:
        return
    if dict(commit.starts) != dict(latest.positions):
        raise TableBusy(
            f"the table in {directory} holds batch {latest.batch} of another query ({latest.query})",
            hint="stop that query, or restore its checkpoint, or choose another table",
        )


def check_version(found: int, wanted: int | None, directory: str) -> None:
    """Raises TableChanged."""
    if wanted is not None and found != wanted:
        raise TableChanged(f"the table in {directory} has version {found}, not {wanted}")
