"""Plain Parquet: a directory of files, which every program reads, and no log of them.

Every file that exists counts, so a batch is committed in three steps, each of which may be repeated:

    1. write its rows into files under `staging`
    2. remove what an interrupted attempt has left of this batch in the table
    3. rename the files into the table, and record the positions

Spark records the batch afterwards. If it is killed at any moment before, it writes the same batch again, and
step 2 makes sure that nothing is duplicated. A reader can see some files of a batch before the others, and
there is one version only: that is what the other formats are for.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

from headrace.errors import UsageError
from headrace.spark.table.batch_files import write_files
from headrace.spark.table.compaction import Compaction
from headrace.spark.table.files import Files
from headrace.spark.table.footers import data_file, partition_of
from headrace.spark.table.interface import (
    RETRY,
    Commit,
    Compacted,
    DataFile,
    Expired,
    Rows,
    Version,
    VersionInfo,
)
from headrace.spark.table.layout import LATEST, SCHEMA, STAGING, WRITERS, content_of, file_name, other_name
from headrace.spark.table.partition_columns import with_partition_columns
from headrace.spark.table.schemas import nullable

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ENDING = "parquet"


class ParquetFormat:
    name = "parquet"

    def __init__(self, spark: SparkSession, directory: str, *, partition_by: Sequence[str] = ()) -> None:
        self._spark = spark
        self._files = Files(spark, directory)
        self.directory = self._files.root
        self._partition_by = tuple(partition_by)
        self._compaction = Compaction(spark, self._files, ENDING)
        self._rows: dict[str, int] = {}  # by path: files do not change, and opening them all takes time
        self._committed: int | None = None  # in this run, in which no batch is repeated

    # -- what there is

    def exists(self) -> bool:
        return self._files.exists(SCHEMA) or bool(self._paths())

    def create(self, schema: StructType, partition_by: Sequence[str]) -> None:
        self._partition_by = tuple(partition_by)
        self.evolve(schema)

    def schema(self) -> StructType:
        from pyspark.sql.types import StructType

        if self._files.exists(SCHEMA):
            return StructType.fromJson(json.loads(self._files.read(SCHEMA)))
        return self._schema_of_files()

    def _schema_of_files(self) -> StructType:
        """The schema of a table written by an earlier version, which did not record it.

        Its files may have different types for a column. Then those of the newest apply.
        """
        from pyspark.errors import PySparkException

        reader = self._spark.read.option("mergeSchema", "true").option("basePath", self.directory)
        paths = self._paths()
        try:
            return reader.parquet(*(self._files.at(path) for path in paths)).schema
        except PySparkException:
            newest = max(paths, key=lambda path: self._files.modified(path))
            return reader.parquet(self._files.at(newest)).schema

    def evolve(self, schema: StructType) -> None:
        """Readers know only the schema of the files: a wider number is written into all of them."""
        if self._files.exists(SCHEMA):
            before = {field.name: field.dataType for field in nullable(self.schema())}
            changed = [
                field
                for field in nullable(schema)
                if before.get(field.name, field.dataType) != field.dataType
            ]
            if changed:
                self._compaction.finish()
                self._compaction.rewrite(schema)
        self._files.write(SCHEMA, schema.json())

    def last_batch(self, query: str) -> int | None:
        """Only what is recorded. Files of a later batch may be there already; its commit removes them."""
        record = f"{WRITERS}/{query}.json"
        return int(json.loads(self._files.read(record))["batch"]) if self._files.exists(record) else None

    def latest(self) -> Commit | None:
        return Commit.from_json(json.loads(self._files.read(LATEST))) if self._files.exists(LATEST) else None

    def version(self) -> int:
        latest = self.latest()
        return latest.batch if latest else 0

    def versions(self) -> list[VersionInfo]:
        latest = self.latest()
        if latest is None:
            return []
        return [VersionInfo(latest.batch, self._time_of_latest(), "WRITE", latest)]

    def files(self, version: Version | None = None) -> list[DataFile]:
        self._check_newest(version)
        found = []
        for file in self._files.list():
            if _counts(file.path):
                if file.path not in self._rows:
                    self._rows[file.path] = data_file(self._files, file).rows
                rows = self._rows[file.path]
                found.append(DataFile(file.path, file.size, rows, partition_of(file.directory)))
        return found

    def read(self, spark: SparkSession, version: Version | None = None) -> DataFrame:
        self._check_newest(version)
        paths = self._paths()
        return with_partition_columns(spark, self._files, paths, self.schema(), self._partition_by)

    # -- commits

    def write(self, rows: Rows, batch: int) -> list[DataFile]:
        staged = f"{_staging(batch)}/{secrets.token_hex(4)}"
        return write_files(rows, self._files, staged, self._partition_by)

    def commit(self, commit: Commit, files: Sequence[DataFile]) -> None:
        self.replace(commit, (), files)

    def replace(self, commit: Commit, removed: Sequence[DataFile], added: Sequence[DataFile]) -> None:
        """Each step may be repeated, until the last one records that it is done."""
        last = self.last_batch(commit.query)
        if last is not None and last >= commit.batch:
            if commit.query != RETRY:
                self._compaction.finish()
                self._committed = commit.batch
            return
        if commit.query != RETRY and self._committed is None:
            self._finish_interrupted(commit)
        numbers: dict[str, int] = {}
        for file in added:
            directory = _below_staging(file.path)
            number = numbers[directory] = numbers.get(directory, -1) + 1
            if self._files.exists(file.path):
                self._files.rename(file.path, f"{directory}{_name(commit, number)}")
        for file in removed:
            self._files.delete(file.path)
        text = json.dumps(commit.to_json())
        if commit.positions:
            self._files.write(LATEST, text)
        self._files.write(f"{WRITERS}/{commit.query}.json", text)
        self._files.delete(_staging(commit.batch))
        if commit.query != RETRY:
            self._committed = commit.batch

    def _finish_interrupted(self, commit: Commit) -> None:
        """Complete a compaction, and remove files of this batch that are already in the table.

        Within a run no batch is repeated, so this is done for the first one only.
        """
        self._compaction.finish()
        contents = {path: content_of(path.rpartition("/")[2]) for path in self._paths()}
        last = max((content.last for content in contents.values() if content), default=-1)
        if last > commit.batch:
            raise UsageError(
                f"the table in {self.directory} holds batch {last}, but the query is at {commit.batch}: "
                "its checkpoint was removed or replaced",
                hint="choose another directory for the table, or restore the checkpoint",
            )
        for path, content in contents.items():
            if content and content.last == commit.batch:
                self._files.delete(path)

    def recover(self, last: int) -> None:
        """Leave exactly the batches up to this one, the last that Spark has recorded."""
        self._compaction.finish()
        for path in self._paths():
            content = content_of(path.rpartition("/")[2])
            if content and content.first > last:
                self._files.delete(path)

    def upsert(
        self,
        commit: Commit,
        rows: pyarrow.Table,
        key: Sequence[str],
        deleted: pyarrow.Table,
        *,
        only_after: int | None = None,
    ) -> NoReturn:
        raise UsageError("a plain Parquet table cannot replace rows", hint="--key needs --format delta")

    # -- maintenance

    def compact(self) -> Compacted:
        """Merge files of batches that Spark has recorded: all but the last."""
        if self._committed is None:
            raise UsageError(
                f"the table in {self.directory} is plain Parquet, which only its query compacts",
                hint=f"set --compact-after, or `headrace table convert {self.directory}`",
            )
        return self._compaction.run(before=self._committed)

    def expire(self, older_than_seconds: float) -> Expired:
        """There is one version only."""
        return Expired()

    def remove_orphans(self, older_than_seconds: float) -> int:
        """What an interrupted batch leaves is overwritten when the batch is repeated."""
        return 0

    def _paths(self) -> list[str]:
        return [file.path for file in self._files.list() if _counts(file.path)]

    def _check_newest(self, version: Version | None) -> None:
        if version is not None and version != self.version():
            raise UsageError(
                f"the table in {self.directory} is plain Parquet, which has no older versions",
                hint=f"`headrace table convert {self.directory}` makes it a Delta table, which has",
            )

    def _time_of_latest(self) -> datetime:
        return datetime.fromtimestamp(self._files.modified(LATEST), UTC)


def _counts(path: str) -> bool:
    """Readers ignore names that begin like this, at any depth."""
    return not any(part.startswith(("_", ".")) for part in path.split("/"))


def _staging(batch: int) -> str:
    return f"{STAGING}/batch-{batch}"


def _name(commit: Commit, number: int) -> str:
    if commit.query == RETRY:
        return other_name(RETRY, commit.batch, number, ENDING)
    return file_name(commit.batch, commit.batch, number, ENDING)


def _below_staging(path: str) -> str:
    """`_headrace/staging/batch-7/5f0c1d2e/date=…/part-0.parquet` lies in `date=…/` of the table."""
    directory = path.split("/", 4)[4].rpartition("/")[0]
    return f"{directory}/" if directory else ""
