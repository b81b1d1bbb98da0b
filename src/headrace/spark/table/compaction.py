"""Compaction: many small files of a partition become one.

A file per batch is a lot of files, and readers pay for each. When a partition has enough small ones, they are
read and written as one file. Only batches that Spark has recorded are compacted, because those are not
written again.

Replacing several files with one takes several steps. A journal is written before the first, and the next run
that finds it completes them:

    1. the new file is complete, in `staging`, and was read again: it has every row and column
    2. the journal is written: this file replaces those
    3. the new file is renamed into the table
    4. the old files are deleted, then the journal

A reader between 3 and 4, which takes milliseconds, finds duplicated rows, never too few.

Batches need not have the same columns: the new file has all of them. If a column has changed its type, or a
file cannot be read, the files of the partition stay as they are, with a warning: many files are slow, but
nothing is lost.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.spark.failure import reason_of
from headrace.spark.table.batch_files import SETTINGS, settings_of
from headrace.spark.table.files import File, Files
from headrace.spark.table.interface import Compacted, TableError
from headrace.spark.table.layout import JOURNAL, STAGING, Content, content_of, file_name
from headrace.spark.table.schemas import nullable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Files of this size are large enough for a task, and stay as they are.
LARGE_BYTES = 128 << 20


@dataclass(frozen=True)
class _Group:
    """Files of one partition that become one."""

    directory: str
    files: list[File]
    content: Content | None
    """None if it is one file that is not a batch, such as retried dead letters."""


class _Incomplete(Exception):
    """The new file may not replace the old ones."""


class Compaction:
    def __init__(self, spark: SparkSession, files: Files, ending: str) -> None:
        self._spark = spark
        self._files = files
        self._ending = ending
        self._refused: set[str] = set()  # directories whose files cannot be merged

    def run(self, *, before: int) -> Compacted:
        """Compact the partitions that have several small files of batches before this one."""
        removed = added = 0
        for group in self._groups(before):
            if len(group.files) > 1 and group.directory not in self._refused and self._compact(group):
                removed, added = removed + len(group.files), added + 1
        return Compacted(removed, added)

    def rewrite(self, schema: StructType) -> None:
        """Rewrite each file in which a column has another type. Raises TableError if that fails."""
        types = {field.name: field.dataType for field in nullable(schema)}
        for file in self._files.list():
            if file.path.startswith("_") or file.name.startswith((".", "_")):
                continue
            stored = nullable(self._spark.read.format(self._ending).load(self._files.at(file.path)).schema)
            if any(types.get(field.name, field.dataType) != field.dataType for field in stored):
                self._refused.discard(file.directory)
                if not self._compact(_Group(file.directory, [file], content_of(file.name)), schema):
                    raise TableError(f"{self._files.at(file.path)} cannot get the new types of its columns")

    def finish(self) -> None:
        """Complete an interrupted compaction."""
        if not self._files.exists(JOURNAL):
            return
        journal = json.loads(self._files.read(JOURNAL))
        if self._files.exists(journal["staged"]):
            self._files.rename(journal["staged"], journal["target"])
        # If somebody has removed the new file, only the old ones are left.
        if self._files.exists(journal["target"]):
            for path in journal["replaces"]:
                self._files.delete(path)
        self._files.delete(JOURNAL)

    def _groups(self, before: int) -> list[_Group]:
        small: dict[str, list[tuple[Content, File]]] = defaultdict(list)
        for file in self._files.list():
            content = content_of(file.name)
            own = file.path.startswith("_")
            if content and not own and content.last < before and file.size < LARGE_BYTES:
                small[file.directory].append((content, file))
        groups = []
        for directory, members in small.items():
            ordered = sorted(members, key=lambda member: member[0].first)
            content = Content(ordered[0][0].first, max(member[0].last for member in ordered))
            groups.append(_Group(directory, [file for _, file in ordered], content))
        return groups

    def _compact(self, group: _Group, schema: StructType | None = None) -> bool:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        staged = f"{STAGING}/compaction"
        try:
            merged = self._merge(group, staged, schema)
        except (PySparkException, Py4JError, _Incomplete) as error:
            self._refuse(group, reason_of(error))
            merged = ""
        if merged:
            self._files.write(JOURNAL, json.dumps(self._journal(group, f"{staged}/{merged}")))
            self.finish()
        self._files.delete(staged)
        return bool(merged)

    def _merge(self, group: _Group, staged: str, schema: StructType | None) -> str:
        """Write one file with all rows of the group. Returns its path below `staged`."""
        reader = self._spark.read.format(self._ending).option("mergeSchema", "true")
        rows = reader.load([self._files.at(file.path) for file in group.files])
        if schema is not None:
            names = set(rows.columns)
            rows = rows.to(type(schema)([field for field in nullable(schema) if field.name in names]))
        writer = _in_order(rows.coalesce(1)).write.mode("overwrite")
        with settings_of(self._spark, SETTINGS):  # the same types as the files that are not merged
            writer.format(self._ending).save(self._files.at(staged))
        written = [file for file in self._files.list(staged) if not file.name.startswith(("_", "."))]
        if len(written) != 1:
            raise _Incomplete(f"{len(written)} files were written instead of one")
        merged = self._spark.read.format(self._ending).load(self._files.at(f"{staged}/{written[0].path}"))
        if _figures(merged) != _figures(rows):
            raise _Incomplete("the new file does not hold all that they hold")
        return written[0].path

    def _refuse(self, group: _Group, reason: str) -> None:
        self._refused.add(group.directory)
        where = self._files.at(group.directory).rstrip("/")
        text = f"{len(group.files)} small files in {where} cannot be merged and stay as they are: {reason}"
        print(f"headrace: warning: {text}", file=sys.stderr, flush=True)

    def _journal(self, group: _Group, staged: str) -> dict[str, Any]:
        directory = f"{group.directory}/" if group.directory else ""
        replaces = [file.path for file in group.files]
        if group.content is None:
            target = f"{directory}{secrets.token_hex(4)}-{group.files[0].name}"
            return {"staged": staged, "target": target, "replaces": replaces}
        name = file_name(group.content.first, group.content.last, 0, self._ending)
        number = 0
        # They may already be compacted, with nothing new to add, or be one of several files of their batch.
        while self._files.exists(f"{directory}{name}"):
            number += 1
            name = file_name(group.content.first, group.content.last, number, self._ending)
        return {"staged": staged, "target": f"{directory}{name}", "replaces": replaces}


def _in_order(rows: Any) -> Any:
    """By sequence where there is one: neighbours compress well, and readers can skip."""
    keys = [name for name in ("stream", "seq") if name in rows.columns]
    return rows.sortWithinPartitions(*keys) if keys else rows


def _figures(rows: DataFrame) -> tuple[Any, ...]:
    """A fingerprint of the content: columns, rows, and values in each column."""
    from pyspark.sql import functions

    columns = [(column.name, column.dataType) for column in rows.schema]
    values = [functions.count(functions.col(f"`{name.replace('`', '``')}`")) for name, _ in columns]
    return columns, rows.agg(functions.count(functions.lit(1)), *values).first()
