"""A process that commits batches to an Iceberg table, and is killed at a chosen step of a chosen commit.

    python -m tests.spark.table.iceberg_committer DIRECTORY BATCHES [STEP BATCH]

Restarted, it continues. Every third batch replaces all files by one, as a compaction does, and adds its rows.
There is no Spark in it, so that it starts in a second: the files are pyarrow's, the commits are ours.
"""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow
import pyarrow.parquet
import sqlalchemy.orm
from pyiceberg import catalog, manifest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from headrace.spark.table.iceberg.catalog_table import CatalogTable
from headrace.spark.table.iceberg.commits import PROPERTIES, last_batch
from headrace.spark.table.interface import Commit, StreamPosition

QUERY = "q"
PER_BATCH = 10
SCHEMA = Schema(NestedField(1, "seq", LongType()))
MAPPING = {"schema.name-mapping.default": SCHEMA.name_mapping.model_dump_json()}

STEPS: dict[str, tuple[Any, str, bool]] = {
    "before manifests": (manifest.ManifestWriter, "__exit__", True),
    "manifests are written": (manifest.ManifestListWriter, "__exit__", True),
    "the list of manifests is written": (manifest.ManifestListWriter, "__exit__", False),
    "before metadata": (catalog.MetastoreCatalog, "_write_metadata", True),
    "metadata is written": (sqlalchemy.orm.Session, "commit", True),
    "the catalog is changed": (sqlalchemy.orm.Session, "commit", False),
}
"""What is called then, and whether to die before or after it."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(step: str, die: Callable[[], None] = die) -> None:
    where, name, before = STEPS[step]
    method = getattr(where, name)

    def mortal(*arguments: Any, **options: Any) -> None:
        if not before:
            method(*arguments, **options)
        die()

    setattr(where, name, staticmethod(mortal) if name == "_write_metadata" else mortal)


def write(table: CatalogTable, rows: list[int]) -> str:
    path = f"data/{uuid.uuid4().hex}.parquet"
    os.makedirs(f"{table.directory}/data", exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table({"seq": rows}), table.absolute(path))
    return path


def commit_batch(table: CatalogTable, batch: int) -> None:
    first = batch * PER_BATCH + 1
    end = first + PER_BATCH
    commit = Commit(QUERY, batch, {"S": StreamPosition(end)}, PER_BATCH, starts={"S": StreamPosition(first)})
    if batch % 3:
        path = write(table, list(range(first, end)))
        table.commit_once(commit, lambda loaded: table.change(loaded, [path], commit=commit))
        return

    def merge(loaded: Table) -> None:
        rows = loaded.scan().to_arrow()["seq"].to_pylist() + list(range(first, end))
        table.change(loaded, [write(table, rows)], table.live_files(loaded), commit=commit)

    table.commit_once(commit, merge)


def main() -> None:
    directory, batches, *fate = sys.argv[1:]
    table = CatalogTable(directory)
    if not table.exists():
        table.register(SCHEMA, UNPARTITIONED_PARTITION_SPEC, PROPERTIES | MAPPING)
    last = last_batch(table.load(), QUERY)
    for batch in range(0 if last is None else last + 1, int(batches)):
        if fate and batch == int(fate[1]):
            die_at(fate[0])
        commit_batch(table, batch)


if __name__ == "__main__":
    main()
