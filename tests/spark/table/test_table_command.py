"""`headrace table` as a user starts it, on a table that `deltalake` alone has written."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from headrace.spark.table.interface import Commit, StreamPosition
from tests.cli import commands
from tests.cli.commands import assert_one_error_line, run

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "SECONDS", 240.0)  # Spark on a busy machine


@pytest.fixture
def table(tmp_path: Path) -> Path:
    directory = tmp_path / "table"
    for batch in range(2):
        commit = Commit(
            "q", batch, {"ORDERS": StreamPosition(10 * batch + 11)}, rows=10, dead_letters=batch, deletions=2
        )
        properties = CommitProperties(custom_metadata={"headrace": commit.to_json()})
        rows = pa.table({"seq": range(10 * batch + 1, 10 * batch + 11)})
        write_deltalake(directory, rows, mode="append", commit_properties=properties)
    (directory / "_headrace").mkdir()
    about = {"version": 2, "format": "delta", "origin": "the stream ORDERS", "streams": ["ORDERS"]}
    (directory / "_headrace" / "table.json").write_text(json.dumps(about))
    return directory


def test_the_history_of_a_table_is_printed(table: Path) -> None:
    done = run("table", "history", str(table), "--master", "local[1]")
    assert done.code == 0, done.errors
    head, *lines = done.text.splitlines()
    assert head.split()[:2] == ["version", "time"]
    assert [line.split()[0] for line in lines] == ["1", "0"]
    assert lines[0].split()[-6:] == ["1", "10", "2", "1", "ORDERS", "20"]


@pytest.mark.long
def test_a_table_is_compacted_and_expired_on_demand(table: Path) -> None:
    listed = run("table", "files", str(table), "--master", "local[1]")
    assert len(listed.text.splitlines()) == 2
    assert run("table", "compact", str(table), "--master", "local[1]").text == "2 files replaced by 1\n"
    assert run("table", "expire", str(table), "--master", "local[1]").text.startswith("0 files")
    assert sorted(DeltaTable(table).to_pyarrow_table()["seq"].to_pylist()) == list(range(1, 21))
    done = run("table", "convert", str(table), "--master", "local[1]")
    assert done.code == 1
    assert "is a table of format delta: only plain Parquet can be converted" in done.errors.splitlines()[-1]


def test_a_directory_without_a_table_is_reported_before_spark_starts(tmp_path: Path) -> None:
    for command in "history", "files", "compact", "expire", "convert":
        done = run("table", command, str(tmp_path))
        assert_one_error_line(done, "there is no table in", "`headrace land` makes one")
    done = run("land", "retry", str(tmp_path))
    assert_one_error_line(done, "there is no table in", "`headrace land` makes one")


def test_the_directory_of_a_directory_of_tables_names_them(table: Path) -> None:
    done = run("table", "history", str(table.parent))
    assert_one_error_line(done, f"there is no table in {table.parent}", f"some below it: {table}")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (
            "SELECT * FROM tabel",
            "no server listens at 127.0.0.1:1; tabel would be a stream: the tables are table",
        ),
        pytest.param(
            "SELECT * FROM `table`", "a table's name with _landed behind it", marks=pytest.mark.long
        ),
        pytest.param("DROP TABLE `table`", "`headrace sql` only reads", marks=pytest.mark.long),
    ],
)
def test_a_query_that_cannot_be_answered_says_what_would_help(table: Path, query: str, told: str) -> None:
    done = run("sql", query, "--tables", str(table), "-s", "nats://127.0.0.1:1", "--master", "local[1]")
    assert done.code == 1
    assert told in done.errors.splitlines()[-1]
