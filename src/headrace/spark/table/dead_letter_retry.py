"""`headrace land retry`: dead letters are decoded again, now that the schema has been corrected.

Those that fit now go into the table, the others stay, with the new reason. These are two tables with a commit
each, and nothing may be in both or in none afterwards, whatever happens in between:

    1. write the files of both, which no reader sees yet
    2. write a journal: attempt 3 replaces these files of the dead letters by those
    3. commit the rows to the table, as attempt 3
    4. replace the files of the dead letters, as attempt 3
    5. delete the journal

If there is a journal, check whether the table has that attempt. If it has, do 4 and 5; if not, nothing has
happened, and the files that were written are orphans. A query may land new dead letters in the meantime: only
files that were read are replaced.

In a table with a key, a dead letter lands only if nothing newer of its key is known: neither a row, nor a
deletion (see `deletions`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from headrace.errors import UsageError
from headrace.spark.payload.decode import dead_letters, decode
from headrace.spark.payload.decoding import Decoding
from headrace.spark.table.bad_rows import Fail
from headrace.spark.table.dead_letters import dead_letter_table, deletions_of
from headrace.spark.table.description import read_description
from headrace.spark.table.files import Files
from headrace.spark.table.interface import (
    RETRY,
    Commit,
    DataFile,
    Settings,
    TableBusy,
    TableChanged,
)
from headrace.spark.table.layout import DEAD_LETTERS, DESCRIPTION, PARTITIONS, RETRY_JOURNAL
from headrace.spark.table.opening import open_table
from headrace.spark.table.schemas import conform
from headrace.spark.table.typed_rows import TypedRows

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

ATTEMPTS_TO_READ = 5
ATTEMPTS_TO_COMMIT = 20


@dataclass(frozen=True)
class Retried:
    landed: int = 0
    left: int = 0


class Retry:
    """Opens both tables. Raises UsageError if there is nothing to retry."""

    def __init__(self, spark: SparkSession, directory: str, settings: Settings) -> None:
        self._spark = spark
        self._files = Files(spark, directory)
        self.table = open_table(spark, directory, settings)
        about = read_description(self._files)
        if about is None or not about.decoding:
            raise UsageError(
                f"the table in {directory} has messages as they are: there are no dead letters",
                hint="`headrace land --schema` makes tables of typed columns",
            )
        decoding = Decoding.from_json(about.decoding)
        computed = {name: how for name, how in PARTITIONS.items() if name in about.partition_by}
        own = {field.name for field in decoding.columns}
        self._typed = TypedRows(
            decoding, Fail(), {name: how for name, how in computed.items() if name not in own}
        )
        self._has_letters = self._files.exists(f"{DEAD_LETTERS}/{DESCRIPTION}")
        self._deletions = deletions_of(spark, self._files, about, settings)
        if self._has_letters:
            self.letters = dead_letter_table(spark, self._files, about, settings)

    def run(self) -> Retried:
        """Complete an interrupted attempt, then make one."""
        if not self._has_letters:
            return Retried()
        self._finish()
        before, letters = self._read()
        if not before:
            return Retried()
        attempt = 1 + max(self.table.last_batch(RETRY) or 0, self.letters.last_batch(RETRY) or 0)
        decoding = self._typed.decoding
        decoded = decode(letters.drop("reason", "batch"), decoding)
        still = dead_letters(decoded, decoding, attempt).drop("batch")
        still = still.join(letters.select("stream", "seq", "batch"), ["stream", "seq"])
        left = self.letters.write(conform(still.select(*letters.columns), letters.schema), attempt)
        retried = Retried(_rows(before) - _rows(left), _rows(left))
        if retried.landed:
            self._commit(decoded, attempt, before, left, retried)
        return retried

    def _commit(
        self,
        decoded: DataFrame,
        attempt: int,
        before: Sequence[DataFile],
        left: Sequence[DataFile],
        retried: Retried,
    ) -> None:
        commit = Commit(RETRY, attempt, rows=retried.landed)
        schema = self.table.schema()
        journal = {
            "attempt": attempt,
            "removed": [asdict(file) | {"columns": {}} for file in before],
            "left": [asdict(file) | {"columns": {}} for file in left],
        }
        if self._typed.decoding.key:
            changed, deleted = self._typed.latest(decoded, schema)
            self._deletions.add(deleted)
            self._files.write(RETRY_JOURNAL, json.dumps(journal))
            self._upsert(commit, changed, deleted)
        else:
            files = self.table.write(conform(self._typed.good(decoded), schema), attempt)
            self._files.write(RETRY_JOURNAL, json.dumps(journal))
            self.table.commit(commit, files)
        self._finish()

    def _upsert(self, commit: Commit, changed: pyarrow.Table, deleted: pyarrow.Table) -> None:
        """Leave out rows that are older than the deletion of their key.

        A query adds to the deletions before it commits. So those read after the version of the table include
        all that this version knows of. If another batch comes between that and the commit, they are read
        again.
        """
        key, schema = self._typed.decoding.key, self.table.schema()
        rows, seen = changed, frozenset[str]()
        for _ in range(ATTEMPTS_TO_COMMIT):
            version = self.table.version()
            names = self._deletions.names()
            if names != seen:
                rows, seen = self._deletions.without(changed, key, schema, names), names
            with suppress(TableChanged):
                counted = replace(commit, rows=len(rows), deletions=len(deleted))
                return self.table.upsert(counted, rows, key, deleted, only_after=version)
        raise self._changes("the table in")

    def _finish(self) -> None:
        """Complete the attempt of the journal, if there is one and the table has its rows."""
        if not self._files.exists(RETRY_JOURNAL):
            return
        journal: Mapping[str, Any] = json.loads(self._files.read(RETRY_JOURNAL))
        attempt = int(journal["attempt"])
        last = self.table.last_batch(RETRY)
        if last is not None and last >= attempt:
            left = [DataFile(**file) for file in journal["left"]]
            removed = [DataFile(**file) for file in journal["removed"]]
            self.letters.replace(Commit(RETRY, attempt, rows=_rows(left)), removed, left)
            if key := self._typed.decoding.key:
                self._deletions.forget(key, self.table.schema())
        self._files.delete(RETRY_JOURNAL)

    def _read(self) -> tuple[Sequence[DataFile], DataFrame]:
        """The files of the dead letters, and exactly their rows: a query may be adding others."""
        for _ in range(ATTEMPTS_TO_READ):
            version = self.letters.version()
            files = self.letters.files(version)
            rows = self.letters.read(self._spark, version)
            read = {PurePosixPath(unquote(path)).name for path in rows.inputFiles()} if files else set()
            if read == {PurePosixPath(file.path).name for file in files}:
                return files, rows
        raise self._changes("the table of dead letters of")

    def _changes(self, what: str) -> TableBusy:
        return TableBusy(f"{what} {self._files.root} changes all the time", hint="stop the query meanwhile")


def _rows(files: Sequence[DataFile]) -> int:
    return sum(file.rows for file in files)
