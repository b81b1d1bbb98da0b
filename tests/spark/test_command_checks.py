"""What `land` and `pipeline` refuse before Spark is started: one line with the reason."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.cli.commands import assert_one_error_line, run

FILE = """\
name: shop
server: embedded
streams:
  ORDERS: {subjects: [orders.>]}
spark: {master: "local[1]"}
checkpoint: state
sources:
  orders: {stream: ORDERS}
sinks:
  raw: {from: orders, table: tables/raw}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.yml"
    path.write_text(FILE)
    return path


def nothing_was_made(file: Path) -> bool:
    return [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("server", "command", "master"),
    [
        ("embedded", "check", "spark://10.0.0.5:7077"),
        ("embedded", "run", "yarn"),
        ("{embedded: true, port: 4299}", "run", "k8s://https://10.0.0.5"),
    ],
)
def test_an_embedded_server_is_refused_with_a_master_elsewhere(
    file: Path, server: str, command: str, master: str
) -> None:
    text = FILE.replace('"local[1]"', master).replace("embedded", server)
    file.write_text(text)
    quick = ["--quick"] if command == "check" else []
    done = run("pipeline", command, str(file), *quick)
    told = f"{file}:2:1: the embedded server can only be reached from this machine, but the master {master}"
    assert_one_error_line(done, told, "give its URL as `server`")
    assert nothing_was_made(file)


def test_the_master_that_counts_is_the_one_that_is_used(file: Path) -> None:
    done = run("pipeline", "run", str(file), "--master", "yarn")
    assert_one_error_line(done, "the embedded server can only be reached from this machine")
    file.write_text(FILE.replace("local[1]", "yarn"))
    done = run("pipeline", "run", str(file), "--server", "nats://127.0.0.1:1")
    assert_one_error_line(done, "no server listens at 127.0.0.1:1")
    file.write_text(FILE.replace("local[1]", "local-cluster[2,1,1024]"))
    assert run("pipeline", "check", str(file), "--quick").code == 0


def test_spark_connect_is_refused_before_anything_begins(file: Path) -> None:
    remote = "sc://10.0.0.5"
    land = ["land", "ORDERS", "--to", str(file.parent / "table"), "-s", "nats://127.0.0.1:1"]
    told = "this command does not work through Spark Connect"
    assert_one_error_line(run(*land, "--master", remote), told, f"--master is {remote}", "spark://HOST:7077")
    assert_one_error_line(run(*land, SPARK_REMOTE=remote), told, f"the variable SPARK_REMOTE is {remote}")
    pipeline = ["pipeline", "run", str(file)]
    assert_one_error_line(run(*pipeline, SPARK_REMOTE=remote), told)
    assert_one_error_line(run(*pipeline, "--master", remote), told)
    file.write_text(FILE.replace('"local[1]"', f'"local[1]", conf: {{spark.remote: "{remote}"}}'))
    assert_one_error_line(run(*pipeline), told, f"spark.remote is {remote}")
    assert nothing_was_made(file)


@pytest.mark.parametrize("port", ["localhost:", "70000"])
def test_a_metrics_port_that_is_none_is_told(port: str) -> None:
    done = run("land", "ORDERS", "--to", "nowhere", f"--metrics-port={port}")
    assert_one_error_line(done, "--metrics-port", "neither a port nor HOST:PORT", code=2)


def test_a_metrics_port_in_use_is_told_before_the_server_starts(file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("pipeline", "run", str(file), "--metrics-port", str(port))
    assert_one_error_line(done, f"metrics cannot be served at 127.0.0.1:{port}", "--metrics-port")
    assert nothing_was_made(file)


@pytest.mark.parametrize("query", ["DESCRIBE HISTORY orders", "desc history `orders`;"])
def test_a_history_without_tables_is_told_what_it_needs(query: str) -> None:
    done = run("sql", query, "-s", "nats://127.0.0.1:1")
    assert_one_error_line(
        done, "DESCRIBE HISTORY orders needs --tables DIR, the directory of the table", code=2
    )
