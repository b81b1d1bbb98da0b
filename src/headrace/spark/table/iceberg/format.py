"""Iceberg: metadata lists the files of every version; `pyiceberg` writes it, a catalog names the newest.

    ORDERS/
      data/batch-000000042-5f0c1d2e/by_date=2026-11-16/part-….parquet
      metadata/                     Iceberg's: metadata of the table, lists of files
      _headrace/catalog.sqlite      the catalog, unless there is another

The catalog replaces the name of the newest metadata in one step: a reader sees a batch whole or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.errors import UsageError
from headrace.spark.table.batch_files import new_batch_directory, write_files
from headrace.spark.table.files import Files
from headrace.spark.table.iceberg.catalog_table import CatalogTable
from headrace.spark.table.iceberg.commits import (
    PROPERTIES,
    last_batch,
    latest_commit,
    version_info,
    version_of,
)
from headrace.spark.table.iceberg.partitions import check_partitions, partition_spec, with_directories
from headrace.spark.table.iceberg.schemas import iceberg_schema, spark_schema
from headrace.spark.table.interface import (
    ArrowRows,
    Commit,
    Compacted,
    DataFile,
    Expired,
    Rows,
    Version,
    VersionInfo,
    check_version,
)

if TYPE_CHECKING:
    import pyarrow
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# The metadata, which every commit rewrites, names all snapshots: too many make commits slow. But a reader
# that has just started needs the files of its snapshot.
MOST_SNAPSHOTS = 1000
FEWEST_SNAPSHOTS = 800
YOUNGEST_SECONDS = 3600.0


class IcebergFormat(CatalogTable):
    """A table that Spark reads, and whose files Spark writes."""

    name = "iceberg"

    def __init__(
        self,
        spark: SparkSession,
        directory: str,
        *,
        catalog: str = "",
        table: str = "",
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._spark = spark
        self._files = Files(spark, directory)
        super().__init__(self._files.root, catalog=catalog, table=table, options=storage_options)

    # -- what there is

    def create(self, schema: StructType, partition_by: Sequence[str]) -> None:
        from pyiceberg.schema import assign_fresh_schema_ids
        from pyiceberg.table import TableProperties

        check_partitions(schema, partition_by)
        wanted = assign_fresh_schema_ids(iceberg_schema(schema))
        mapping = {TableProperties.DEFAULT_NAME_MAPPING: wanted.name_mapping.model_dump_json()}
        self.register(wanted, partition_spec(wanted, partition_by), PROPERTIES | mapping)

    def schema(self) -> StructType:
        return spark_schema(self.load().schema())

    def version(self) -> int:
        return version_of(self.load().current_snapshot())

    def versions(self) -> list[VersionInfo]:
        found = [version_info(snapshot) for snapshot in self.load().metadata.snapshots]
        return sorted(found, key=lambda info: info.version, reverse=True)

    def last_batch(self, query: str) -> int | None:
        return last_batch(self.load(), query)

    def latest(self) -> Commit | None:
        return latest_commit(self.load())

    def files(self, version: Version | None = None) -> list[DataFile]:
        table = self.load()
        names = [field.name for field in table.spec().fields]
        found = []
        for file in self.live_files(table, version):
            values = [file.partition[place] for place in range(len(file.partition))]
            shown = (None if value is None else str(value) for value in values)
            partition = dict(zip(names, shown, strict=False))
            path = self.relative(file.file_path)
            found.append(DataFile(path, file.file_size_in_bytes, file.record_count, partition))
        return sorted(found, key=lambda file: file.path)

    def read(self, spark: SparkSession, version: Version | None = None) -> DataFrame:
        table = self.load()
        schema = table.schema()
        if version is not None:
            snapshot = self.snapshot_of(table, version)
            if snapshot is not None and snapshot.schema_id is not None:
                schema = table.schemas()[snapshot.schema_id]
        return self.rows_of(spark, self.live_files(table, version), spark_schema(schema))

    def rows_of(self, spark: SparkSession, files: Sequence[IcebergFile], schema: StructType) -> DataFrame:
        """Columns that a file does not have are null, and numbers are widened."""
        if not files:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(*(self._spark_path(file.file_path) for file in files))

    def _spark_path(self, path: str) -> str:
        """Another program may have put files elsewhere."""
        relative = self.relative(path)
        return path if relative == path else self._files.at(relative)

    # -- commits

    def write(self, rows: Rows, batch: int) -> list[DataFile]:
        return self.write_below(rows, new_batch_directory(batch))

    def write_below(self, rows: Rows, directory: str) -> list[DataFile]:
        if isinstance(rows, ArrowRows):
            return write_files(rows, self._files, directory)  # of a table without partitions
        partition_by = [field.name for field in self.load().spec().fields]
        rows, directories = with_directories(rows, partition_by)
        return write_files(rows, self._files, directory, directories)

    def commit(self, commit: Commit, files: Sequence[DataFile]) -> None:
        self.replace(commit, (), files)

    def replace(self, commit: Commit, removed: Sequence[DataFile], added: Sequence[DataFile]) -> None:
        def attempt(table: Table) -> None:
            old = self.live(table, [file.path for file in removed])
            self.change(table, [file.path for file in added], old, commit=commit)

        self.commit_once(commit, attempt)
        self._limit_snapshots()

    def upsert(
        self,
        commit: Commit,
        rows: pyarrow.Table,
        key: Sequence[str],
        deleted: pyarrow.Table,
        *,
        only_after: int | None = None,
    ) -> None:
        from headrace.spark.table.iceberg.upsert import upsert

        def attempt(table: Table) -> None:
            check_version(version_of(table.current_snapshot()), only_after, self.directory)
            upsert(self, self._spark, table, commit, rows, key, deleted)

        self.commit_once(commit, attempt)
        self._limit_snapshots()

    def evolve(self, schema: StructType) -> None:
        from pyiceberg.exceptions import ValidationError

        wanted = iceberg_schema(schema)

        def attempt(table: Table) -> None:
            self.ask(lambda: table.update_schema().union_by_name(wanted).commit())

        try:
            self.again("its columns could not be changed", attempt)
        except (ValidationError, ValueError) as error:  # the latter if a list, struct or map is involved
            raise UsageError(
                f"an Iceberg table cannot change a column so: {error}",
                hint="choose another table, or cast it",
            ) from None

    # -- maintenance

    def compact(self) -> Compacted:
        from headrace.spark.table.iceberg.compaction import compact

        return compact(self, self._spark)

    def expire(self, older_than_seconds: float) -> Expired:
        from headrace.spark.table.iceberg.expiry import expire

        return expire(self, self._files, datetime.fromtimestamp(time.time() - older_than_seconds, UTC))

    def remove_orphans(self, older_than_seconds: float) -> int:
        from headrace.spark.table.iceberg.expiry import remove_orphans

        return remove_orphans(self, self._files, time.time() - older_than_seconds)

    def _limit_snapshots(self) -> None:
        from headrace.spark.table.iceberg.expiry import expire

        snapshots = self.load().metadata.snapshots
        if len(snapshots) > MOST_SNAPSHOTS:
            times = sorted(snapshot.timestamp_ms / 1000 for snapshot in snapshots)
            limit = min(times[-FEWEST_SNAPSHOTS], time.time() - YOUNGEST_SECONDS)
            expire(self, self._files, datetime.fromtimestamp(limit, UTC))
