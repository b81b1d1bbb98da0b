"""One Iceberg table in its catalog: its newest state, and changes to it that concurrent changes cannot spoil.

Nothing here needs Spark.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from headrace.errors import UsageError
from headrace.spark.table.files import library_uri
from headrace.spark.table.iceberg.catalogs import DEAD_LETTERS_ENDING, Catalogs, home_of, identifier_of
from headrace.spark.table.iceberg.commits import change, described, last_batch, latest_commit, version_of
from headrace.spark.table.interface import Commit, TableBusy, TableError, Version, check_continues

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

Result = TypeVar("Result")

ATTEMPTS = 20


class CatalogTable:
    def __init__(
        self, directory: str, *, catalog: str = "", table: str = "", options: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.location = location_of(directory)
        self._catalogs = Catalogs(catalog, home_of(self.location), options or {})
        self.identifier = identifier_of(table, catalog, self.location)

    def exists(self) -> bool:
        if not self._catalogs.exists():
            return False
        if self._catalogs.ask(lambda catalog: catalog.table_exists(self.identifier)):
            self.load()
            return True
        is_dead_letters = self.identifier[-1].endswith(DEAD_LETTERS_ENDING)
        if self._catalogs.is_own and not is_dead_letters and (others := self._catalogs.ask(_tables)):
            raise self._moved(f"{self._catalogs.shown} has {others[0]}, and not {self._shown}")
        return False

    def register(self, schema: Schema, spec: PartitionSpec, properties: Mapping[str, str]) -> None:
        """An empty table."""
        from pyiceberg.exceptions import TableAlreadyExistsError

        self._catalogs.ask(lambda catalog: catalog.create_namespace_if_not_exists(self.identifier[:-1]))
        with contextlib.suppress(TableAlreadyExistsError):  # another query was faster; `load` checks it
            self._catalogs.ask(
                lambda catalog: catalog.create_table(
                    self.identifier,
                    schema,
                    location=self.location,
                    partition_spec=spec,
                    properties=dict(properties),
                )
            )
        self.load()

    def ask(self, question: Callable[[], Result]) -> Result:
        """Run something that needs the catalog."""
        return self._catalogs.ask(lambda _: question())

    def load(self) -> Table:
        """The table as it is now."""
        from pyiceberg.exceptions import NoSuchTableError

        found: Table | None = None
        if self._catalogs.exists():
            try:
                found = self._catalogs.ask(lambda catalog: catalog.load_table(self.identifier))
            except NoSuchTableError:
                pass
            except FileNotFoundError as error:
                raise self._moved(f"the metadata of {self._shown} is not there: {error}") from None
        if found is None:
            self.exists()  # may know more
            raise UsageError(f"there is no Iceberg table {self._shown} in {self.directory}")
        if location_of(found.location()) != self.location:
            raise self._moved(
                f"the catalog has the table {self._shown} in {found.location()}, not in {self.location}"
            )
        return found

    @property
    def _shown(self) -> str:
        return ".".join(self.identifier)

    def _moved(self, what: str) -> UsageError:
        return UsageError(
            what,
            hint="Iceberg stores absolute paths, so a table cannot be moved: use the directory it was made in"
            if self._catalogs.is_own
            else "choose another --table, or that directory",
        )

    def snapshot_of(self, table: Table, version: Version) -> Snapshot | None:
        snapshots = table.metadata.snapshots
        if version == 0:
            return None
        if isinstance(version, datetime):
            found = [one for one in snapshots if one.timestamp_ms <= version.timestamp() * 1000]
        else:
            found = [one for one in snapshots if version in (version_of(one), one.snapshot_id)]
        if not found:
            raise UsageError(
                f"the table in {self.directory} has no version {version}",
                hint=f"`headrace table history {self.directory}` lists them",
            )
        return max(found, key=version_of)

    def live(self, table: Table, paths: Sequence[str]) -> list[DataFile]:
        """These files of the table. Raises TableBusy if one is not in it."""
        if not paths:
            return []
        live = {self.relative(file.file_path): file for file in self.live_files(table)}
        missing = [path for path in paths if path not in live]
        if missing:
            raise TableBusy(f"{missing[0]} is not in the table in {self.directory} any more")
        return [live[path] for path in paths]

    def relative(self, path: str) -> str:
        return location_of(path).removeprefix(f"{self.location}/")

    def absolute(self, path: str) -> str:
        return f"{self.location}/{path}"

    def live_files(self, table: Table, version: Version | None = None) -> list[DataFile]:
        snapshot = table.current_snapshot() if version is None else self.snapshot_of(table, version)
        if snapshot is None:
            return []
        if renamed := next(_renamed(table), ""):
            raise TableError(
                f"another program has renamed the column {renamed}, but Spark finds columns by name here",
                hint="undo that, or copy the rows into another table",
            )
        found = []
        for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files():
            if task.delete_files:
                raise TableError(
                    f"another program has deleted rows of {task.file.file_path}, which only it can leave out",
                    hint="let that program rewrite the files of the table",
                )
            found.append(task.file)
        return found

    def commit_once(self, commit: Commit, attempt: Callable[[Table], None]) -> None:
        """Let `attempt` commit, unless this batch is in the table already."""

        def unless_there(table: Table) -> None:
            last = last_batch(table, commit.query)
            if last is not None and last >= commit.batch:
                return
            check_continues(latest_commit(table) if commit.positions else None, commit, self.directory)
            attempt(table)

        self.again(f"batch {commit.batch} could not be committed", unless_there)

    def again(self, failure: str, attempt: Callable[[Table], None]) -> None:
        """Repeat a change that another commit has invalidated, with the table as it is then."""
        from pyiceberg.exceptions import CommitFailedException

        for number in range(ATTEMPTS):
            table = self.load()
            try:
                return attempt(table)
            except CommitFailedException as error:
                reason = str(error)
            except FileNotFoundError as error:
                if self.load().metadata_location == table.metadata_location:
                    raise
                reason = str(error)  # an expiry has removed what this version needs
            time.sleep(random.uniform(0, 0.05 * (number + 1)))
        raise TableBusy(
            f"the table in {self.directory}: {failure}: {reason}",
            hint="stop the other programs that write this table",
        )

    def change(
        self,
        table: Table,
        added: Sequence[str],
        removed: Sequence[DataFile] = (),
        *,
        commit: Commit | None = None,
        operation: str = "",
    ) -> None:
        """One commit. Raises CommitFailedException if the table has changed since it was loaded."""
        new = described(table, [self.absolute(path) for path in added])
        self.ask(lambda: change(table, new, removed, commit=commit, operation=operation))


def _tables(catalog: Catalog) -> list[str]:
    return [
        ".".join(table)
        for namespace in catalog.list_namespaces()
        for table in catalog.list_tables(namespace)
        if not table[-1].endswith(DEAD_LETTERS_ENDING)
    ]


def _renamed(table: Table) -> Iterator[str]:
    """Columns that have, or had, several names."""
    mapping = table.name_mapping()
    fields = list(mapping) if mapping else []
    while fields:
        field = fields.pop()
        if len(field.names) > 1:
            yield field.names[-1]
        fields += field.fields


def location_of(path: str) -> str:
    """A table's directory as Iceberg writes it: absolute, and without a scheme on this machine."""
    found = library_uri(path)
    return found if "://" in found else os.path.abspath(found)
