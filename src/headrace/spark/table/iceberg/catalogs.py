"""The catalog of an Iceberg table: it names the newest metadata of the table, and replaces it atomically.

Without `--catalog` it is a SQLite file next to the table, `_headrace/catalog.sqlite`: nothing else is needed.
Otherwise it is one for which pyiceberg is configured (in `~/.pyiceberg.yaml`, or with variables such as
`PYICEBERG_CATALOG__LAKE__URI`): REST, Glue, Hive, a database. Secrets stay there.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from headrace.errors import UsageError
from headrace.spark.table.interface import TableError
from headrace.spark.table.layout import OWN

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

Result = TypeVar("Result")

OWN_NAME = "headrace"
NAMESPACE = "default"
DATABASE = f"{OWN}/catalog.sqlite"
# Some catalogs wait forever for a server that does not answer.
ANSWER_SECONDS = 60.0
TABLES_OF_A_CATALOG = 2
LOCK_SECONDS = 30

DEAD_LETTERS = f"/{OWN}/dead-letters"
DEAD_LETTERS_ENDING = "_dead_letters"


class Catalogs:
    """Opens the catalog of one table, once."""

    def __init__(self, name: str, location: str, options: Mapping[str, str]) -> None:
        self.name = name
        self._location = location
        self._options = dict(options)
        self._catalog: Catalog | None = None
        if name and urlsplit(name).password:
            raise UsageError(
                "the address of a catalog must not contain a password, because it is stored with the table",
                hint="configure the catalog in ~/.pyiceberg.yaml, and give its name",
            )
        if not name and "://" in location:
            raise UsageError(
                f"an Iceberg table in {location} needs a catalog",
                hint="choose one with --catalog and --table",
            )

    @property
    def is_own(self) -> bool:
        return not self.name

    @property
    def shown(self) -> str:
        return self.name or self._database

    def exists(self) -> bool:
        """Whether there may be tables in it: our own is created with its first table."""
        return not self.is_own or os.path.exists(self._database)

    def ask(self, question: Callable[[Catalog], Result]) -> Result:
        """Ask the catalog something; opens it first if necessary. Raises TableError if it cannot answer."""
        if self._catalog is None:
            self._catalog = self._answer(self._open)
            weakref.finalize(self, self._catalog.close)
        catalog = self._catalog
        return self._answer(lambda: question(catalog))

    @property
    def _database(self) -> str:
        return f"{self._location}/{DATABASE}"

    def _open(self) -> Catalog:
        from pyiceberg.catalog import load_catalog

        if self.is_own:
            os.makedirs(os.path.dirname(self._database), exist_ok=True)
            return self._open_own()
        try:
            if "://" in self.name:
                return load_catalog(OWN_NAME, uri=self.name, **self._options)
            return load_catalog(self.name, **self._options)
        except (ValueError, KeyError) as error:  # pyiceberg's way of saying that it is not configured
            reason = "" if "URI missing" in str(error) else f": {_first_line(error)}"
            raise UsageError(
                f"the catalog {self.name} is not configured{reason}",
                hint="add it to ~/.pyiceberg.yaml, or set "
                f"PYICEBERG_CATALOG__{re.sub(r'[^A-Z0-9]', '_', self.name.upper())}__URI",
            ) from None

    def _open_own(self, again: int = TABLES_OF_A_CATALOG) -> Catalog:
        """pyiceberg looks for its tables in the database, then creates those that it has not found."""
        from pyiceberg.catalog import load_catalog
        from sqlalchemy.exc import OperationalError

        uri = f"sqlite:///{self._database}?timeout={LOCK_SECONDS}"
        try:
            return load_catalog(OWN_NAME, type="sql", uri=uri, warehouse=self._location, **self._options)
        except OperationalError as error:
            if again and "already exists" in str(error):  # another process has created one in between
                return self._open_own(again - 1)
            raise

    def _answer(self, work: Callable[[], Result]) -> Result:
        from pyiceberg.exceptions import RESTError
        from requests import RequestException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            return within(ANSWER_SECONDS, work)
        except TimeoutError:
            reason = f"no answer in {ANSWER_SECONDS:g} s"
        except (RESTError, RequestException, SQLAlchemyError) as error:
            reason = _system_error(error) or _first_line(error)
        raise TableError(
            f"the catalog {self.shown} does not answer: {reason}",
            hint="check its address and credentials in pyiceberg's configuration"
            if self.name
            else "check that the file can be written, and that it is a catalog",
        )


def within(seconds: float, work: Callable[[], Result]) -> Result:
    """Run it in a thread that does not keep the process alive. Raises TimeoutError after `seconds`."""
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="headrace catalog", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError
    return results[0]


def identifier_of(table: str, catalog: str, location: str) -> tuple[str, ...]:
    """The table's name in its catalog. In its own catalog it is named after its directory."""
    if not table:
        if catalog:
            raise UsageError("--catalog needs --table", hint="as in --table sales.orders")
        home = home_of(location)
        name = re.sub(r"\W", "_", home.rpartition("/")[2]) or "table"
        return NAMESPACE, name if home == location else name + DEAD_LETTERS_ENDING
    parts = tuple(table.split("."))
    if len(parts) < 2 or not all(parts):
        raise UsageError(
            f"--table must be a namespace and a name, not {table}", hint="as in --table sales.orders"
        )
    return parts


def home_of(location: str) -> str:
    """The directory with the catalog of a table: dead letters are in that of the table they belong to."""
    return location.removesuffix(DEAD_LETTERS)


def _system_error(error: BaseException) -> str:
    """Extracts `Connection refused` from the three library errors around it."""
    found = re.findall(r"\[Errno -?\d+\] ([^'\")]+)", str(error))
    return str(found[-1]) if found else ""


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__
