"""`headrace sql`, `land` and `pipeline` as a user starts them."""

from __future__ import annotations

import json
import re
import signal
import time
import urllib.request
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.client import Client
from tests.cli import commands
from tests.cli.commands import assert_one_error_line, run, started
from tests.servers import running_server
from tests.spark.conftest import ONE_SERVER, Broker

pytestmark = pytest.mark.timeout(300)

PIPELINE = """\
name: shop
server: embedded
streams:
  ORDERS: {subjects: [orders.>]}
checkpoint: state
spark:
  master: local[1]
  conf: {spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1 -XX:+UseSerialGC}
sources:
  orders: {stream: ORDERS}
sinks:
  raw: {from: orders, table: tables/raw}
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "SECONDS", 240.0)  # Spark on a busy machine


@ONE_SERVER
def test_sql_queries_a_stream(broker: Broker) -> None:
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", ["3", "4"])
    query = f"SELECT string(data) AS data, seq FROM {stream} ORDER BY seq"
    done = run("sql", query, "-s", broker.url, "--format", "json", "--master", "local[1]")
    assert done.code == 0, done.errors
    assert [json.loads(line) for line in done.text.splitlines()] == [
        {"data": "3", "seq": 1},
        {"data": "4", "seq": 2},
    ]


@pytest.mark.long
@ONE_SERVER
def test_land_keeps_a_table_until_it_is_stopped(broker: Broker, tmp_path: Path) -> None:
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", list("abc"))
    table = tmp_path / "table"
    arguments = [
        "land",
        stream,
        "--to",
        str(table),
        "-s",
        broker.url,
        "--every",
        "0.2",
        "--master",
        "local[1]",
    ]
    with started(*arguments, ready=f"landing {stream}") as landing:
        landing.wait_for("3 rows")
        broker.publish(f"{stream}.a", list("de"))
        landing.wait_for("5 rows")
        assert landing.end(signal.SIGINT) == 0, landing.errors
        assert "5 rows landed" in landing.errors
        assert "Traceback" not in landing.errors
    assert DeltaTable(table).to_pyarrow_table().num_rows == 5


def test_a_pipeline_runs_with_a_server_of_its_own_until_it_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "shop.yml").write_text(PIPELINE)
    arguments = ["pipeline", "run", str(tmp_path / "shop.yml"), "--metrics-port", "0"]
    with started(*arguments, ready="running raw") as pipeline:
        assert "created the stream ORDERS" in pipeline.errors
        address = re.findall(r"nats://127\.0\.0\.1:\d+", pipeline.errors)[0]
        with Client.connect(address) as client:
            publisher = client.publisher(stream="ORDERS")
            publisher.publish("orders.a", pa.array([b"a", b"b", b"c"]))
            publisher.flush()
        pipeline.wait_for("3 rows")
        (metrics,) = re.findall(r"metrics are at (\S+)", pipeline.errors)
        deadline = time.monotonic() + 60
        while 'headrace_query_written_rows_total{query="raw"} 3.0' not in (shown := fetched(metrics)):
            assert time.monotonic() < deadline, shown
            time.sleep(0.1)
        assert pipeline.end(signal.SIGINT) == 0, pipeline.errors
        assert "raw: 3 rows written, 0 behind" in pipeline.errors
        assert "Traceback" not in pipeline.errors
    assert DeltaTable(tmp_path / "tables" / "raw").to_pyarrow_table().num_rows == 3


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


# Errors are printed in one line, before Spark is started


def test_an_unreachable_server_is_reported() -> None:
    for command in ["sql", "SELECT 1"], ["land", "ORDERS", "--to", "nowhere"]:
        assert_one_error_line(run(*command, "-s", "nats://127.0.0.1:1"), "127.0.0.1:1")
    assert not Path("nowhere").exists()


@ONE_SERVER
def test_an_unknown_stream_is_reported(broker: Broker, tmp_path: Path) -> None:
    done = run("land", "NOWHERE", "--to", str(tmp_path / "table"), "-s", broker.url)
    assert_one_error_line(done, "NOWHERE", "there is no such stream")
    assert not (tmp_path / "table").exists()


@ONE_SERVER
@pytest.mark.parametrize("start", ["0", "never", "3", "²"])
def test_a_start_that_is_none_or_beyond_the_end_is_reported(
    broker: Broker, tmp_path: Path, start: str
) -> None:
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", ["a"])
    done = run("land", stream, "--to", str(tmp_path / "table"), "-s", broker.url, "--start", start)
    assert_one_error_line(done, "--start", code=2)
    assert not (tmp_path / "table").exists()


@ONE_SERVER
def test_wrong_credentials_are_told(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "shop.yml").write_text(PIPELINE)
    with running_server(broker.server.kind, config="authorization { user: a, password: b }") as server:
        address = f"nats://a:wrong@{server.host}:{server.port}"
        file = tmp_path / "shop.yml"
        file.write_text(PIPELINE.replace("server: embedded", f"server: {address}"))
        for command in ["sql", "SELECT 1", "-s", address], ["land", "S", "--to", "nowhere", "-s", address]:
            assert_one_error_line(run(*command), "does not accept these credentials")
        assert_one_error_line(run("pipeline", "run", str(file)), "does not accept these credentials")
    assert not Path("nowhere").exists()
    assert not (tmp_path / "state").exists()


def test_a_store_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    path = tmp_path / "shop.yml"
    path.write_text(PIPELINE.replace("server: embedded", "server: {embedded: true, store: letter/streams}"))
    assert_one_error_line(run("pipeline", "run", str(path)), "letter/streams", "Not a directory")
    assert not (tmp_path / "state").exists()


def test_a_typing_mistake_in_a_pipeline_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "shop.yml"
    path.write_text(PIPELINE.replace("sinks:", "snks:"))
    for command in "check", "run":
        done = run("pipeline", command, str(path))
        assert_one_error_line(done, f"{path}:11:1: a pipeline has no setting `snks`; did you mean `sinks`?")
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "streams").exists()


def test_a_pipeline_is_checked_without_a_server(tmp_path: Path) -> None:
    path = tmp_path / "shop.yml"
    path.write_text(PIPELINE)
    done = run("pipeline", "check", str(path), "--quick")
    assert (done.code, done.text) == (0, f"{path}: OK: 1 source, 0 steps, 1 sink\n")
    assert not (tmp_path / "streams").exists()
