"""Catalogs of Iceberg tables: the one beside the table, others by configuration, and those that fail."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog, SqlCatalogBaseTable

from headrace.errors import UsageError
from headrace.spark.failure import in_one_line
from headrace.spark.table.iceberg import catalogs
from headrace.spark.table.iceberg.catalogs import Catalogs, identifier_of
from headrace.spark.table.interface import TableError
from tests.servers import reserved_port

LIST_NAMESPACES = """
import sys
from headrace.spark.table.iceberg.catalogs import Catalogs
print(Catalogs("lake", sys.argv[1], {}).ask(lambda catalog: (catalog.name, catalog.list_namespaces())))
"""


def test_the_catalog_beside_a_table_is_made_when_it_is_used(tmp_path: Path) -> None:
    own = Catalogs("", str(tmp_path), {})
    assert not own.exists()
    assert not (tmp_path / "_headrace").exists()
    assert own.ask(lambda catalog: catalog.list_namespaces()) == []
    assert own.exists()
    assert (tmp_path / "_headrace" / "catalog.sqlite").exists()


def test_a_catalog_that_another_process_makes_at_the_same_time_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It creates the tables after pyiceberg has looked for them."""
    create = SqlCatalog.create_tables

    def late(catalog: SqlCatalog) -> None:
        create(catalog)
        SqlCatalogBaseTable.metadata.create_all(catalog.engine, checkfirst=False)

    monkeypatch.setattr(SqlCatalog, "create_tables", late)
    assert Catalogs("", str(tmp_path), {}).ask(lambda catalog: catalog.list_namespaces()) == []


def test_a_catalog_is_named_as_pyiceberg_is_configured(tmp_path: Path) -> None:
    """In another process: pyiceberg reads its configuration when it is imported."""
    variables = {
        **os.environ,
        "PYICEBERG_CATALOG__LAKE__TYPE": "sql",
        "PYICEBERG_CATALOG__LAKE__URI": f"sqlite:///{tmp_path}/lake.sqlite",
    }
    command = [sys.executable, "-c", LIST_NAMESPACES, str(tmp_path)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "('lake', [])\n"), done.stderr
    assert (tmp_path / "lake.sqlite").exists()


def test_a_catalog_that_is_not_configured_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the catalog lake-1 is not configured$") as raised:
        Catalogs("lake-1", str(tmp_path), {}).ask(lambda catalog: catalog.list_namespaces())
    assert "PYICEBERG_CATALOG__LAKE_1__URI" in raised.value.hint
    assert "\n" not in in_one_line(raised.value)


def test_a_server_that_is_not_there_is_reported_in_one_line(tmp_path: Path) -> None:
    with reserved_port() as unused:
        address = f"http://127.0.0.1:{unused}"
        with pytest.raises(TableError) as raised:
            Catalogs(address, str(tmp_path), {}).ask(lambda catalog: catalog.list_namespaces())
    assert raised.value.message == f"the catalog {address} does not answer: Connection refused"
    assert "\n" not in in_one_line(raised.value)


def test_a_server_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogs, "ANSWER_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(TableError, match=r"does not answer: no answer in 0\.5 s"):
            Catalogs(address, str(tmp_path), {}).ask(lambda catalog: catalog.list_namespaces())


def test_a_file_that_is_no_catalog_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "_headrace").mkdir()
    (tmp_path / "_headrace" / "catalog.sqlite").write_bytes(b"not a database" * 1000)
    with pytest.raises(TableError, match=r"does not answer: .*not a database") as raised:
        Catalogs("", str(tmp_path), {}).ask(lambda catalog: catalog.list_namespaces())
    assert "\n" not in in_one_line(raised.value)


def test_a_password_is_not_stored_with_a_table(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="must not contain a password") as raised:
        Catalogs("postgresql://user:secret@db/lake", str(tmp_path), {})
    assert "secret" not in in_one_line(raised.value)


def test_an_object_store_needs_another_catalog() -> None:
    with pytest.raises(UsageError, match="needs a catalog"):
        Catalogs("", "s3://lake/orders", {})


def test_names_of_tables() -> None:
    assert identifier_of("", "", "/tables/web-orders") == ("default", "web_orders")
    assert identifier_of("", "", "/tables/web-orders/_headrace/dead-letters") == (
        "default",
        "web_orders_dead_letters",
    )
    assert identifier_of("sales.eu.orders", "lake", "/tables/x") == ("sales", "eu", "orders")
    for table, catalog in ("", "lake"), ("orders", "lake"), (".orders", ""), ("sales.", ""):
        with pytest.raises(UsageError, match="--table"):
            identifier_of(table, catalog, "/tables/x")
