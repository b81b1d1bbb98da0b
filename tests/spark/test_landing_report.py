"""A landing tells the server how far it is, and never suffers from telling."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from headrace.cli.spark.follow import follow
from headrace.client.api import parse_time
from headrace.spark.land import Landing, start_landing
from headrace.spark.landing_report import LandingReporter
from headrace.spark.payload.wanted import Payload
from headrace.spark.pipeline.plan import build_views
from headrace.spark.pipeline.reading import read_pipeline
from headrace.spark.pipeline.run import Queries
from headrace.spark.progress import Tally
from tests.monitor.metrics.scrape import series, values
from tests.servers import running_server
from tests.spark.conftest import Broker

pytestmark = pytest.mark.timeout(240)

CONFIG = """
http: "127.0.0.1:-1"
authorization { users: [
  {user: me, password: pw}
  {user: mute, password: pw, permissions: {publish: {deny: "$HEADRACE.>"}}}
] }
no_auth_user: me
"""
PIPELINE = """\
checkpoint: state
sources:
  messages: {stream: "ORDERS,RETURNS"}
sinks:
  raw: {from: messages, table: tables/raw}
"""


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A server with a monitor and, in a stream, all reports that come."""
    with running_server("headrace", CONFIG, ["-js", "-sd", str(tmp_path_factory.mktemp("store"))]) as server:
        broker = Broker(server)
        broker.make_stream(["$HEADRACE.LANDING.>"], name="REPORTS")
        yield broker


def reports(broker: Broker) -> list[dict[str, Any]]:
    return [json.loads(message.data) for message in broker.messages("REPORTS")]


def page(broker: Broker) -> dict[Any, float]:
    (port,) = re.findall(r"Starting http monitor on [\d.]+:(\d+)", broker.server.log())
    return asyncio.run(values(int(port)))


def test_a_landing_reports_its_batches_and_its_end(
    spark: SparkSession, monitored: Broker, tmp_path: Path
) -> None:
    stream = monitored.make_stream()
    monitored.publish(f"{stream}.a", ['{"id": 1}', "bad", '{"id": 3}'])
    directory = str(tmp_path / "table")
    options = {"servers": monitored.url}
    landing = Landing(
        stream,
        directory,
        options,
        decoding=Payload(schema="id INT").decoding(),
    )

    def land(tally: Tally) -> list[dict[str, Any]]:
        with LandingReporter(options) as reporter:
            query = start_landing(spark, landing, once=True, tally=tally, reporter=reporter)
            query.awaitTermination()
        return [report for report in reports(monitored) if report["stream"] == stream]

    *_, last = sent = land(Tally())
    assert {report["id"] for report in sent} == {last["id"]}
    assert parse_time(last["time"]) == max(parse_time(report["time"]) for report in sent)
    expected = {
        "table": directory, "format": "delta", "state": "stopped", "seq": 3, "batch": 0, "rows": 2,
        "dead_letters": 1, "every": 10.0,
    }  # fmt: skip
    assert {name: last[name] for name in expected} == expected
    assert last["rows_per_second"] > 0
    monitored.publish(f"{stream}.a", ['{"id": 4}', '{"id": 5}'])
    labels = {"account": "$G", "stream": stream, "table": directory}
    seen = page(monitored)
    assert seen[series("headrace_landing_lag_messages", **labels)] == 2
    assert seen[series("headrace_landing_rows_total", **labels)] == 2
    assert seen[series("headrace_landing_dead_letters_total", **labels)] == 1
    assert seen[series("headrace_landing_state", **labels, state="stopped")] == 1
    # Restarted, it is the same query, which has landed nothing yet.
    *_, last = land(Tally())
    assert (last["seq"], last["rows"], last["batch"]) == (5, 2, 1)
    assert {report["id"] for report in sent} == {last["id"]}
    assert page(monitored)[series("headrace_landing_lag_messages", **labels)] == 0
    assert len(DeltaTable(directory).to_pyarrow_table()) == 4


@pytest.mark.long
def test_a_landing_that_fails_says_so(spark: SparkSession, monitored: Broker, tmp_path: Path) -> None:
    stream = monitored.make_stream()
    monitored.publish(f"{stream}.a", ["bad"])
    options = {"servers": monitored.url}
    decoding = Payload(schema="id INT").decoding()
    landing = Landing(stream, str(tmp_path / "table"), options, decoding=decoding, on_bad_row="fail")
    with LandingReporter(options) as reporter:
        query = start_landing(spark, landing, once=True, reporter=reporter)
        with pytest.raises(StreamingQueryException):
            query.awaitTermination()
    *_, last = [report for report in reports(monitored) if report["stream"] == stream]
    assert (last["state"], last["seq"], last["rows"], last["batch"]) == ("failed", 0, 0, -1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("unwilling", "refusals"),
    [
        ({"nats.user": "mute", "nats.password": "pw"}, 1),  # who is refused does not ask again
        ({"servers": "nats://127.0.0.1:9"}, 0),
    ],
)
def test_a_landing_that_cannot_report_lands_all_the_same(
    unwilling: dict[str, str], refusals: int, spark: SparkSession, monitored: Broker, tmp_path: Path
) -> None:
    stream = monitored.make_stream()
    monitored.publish(f"{stream}.a", list("abc"))
    landing = Landing(stream, str(tmp_path / "table"), {"servers": monitored.url}, rows_per_batch=2)
    refused = monitored.server.log().count("HEADRACE.LANDING")
    with LandingReporter({"servers": monitored.url, **unwilling}) as reporter:
        start_landing(spark, landing, once=True, reporter=reporter).awaitTermination()
    assert len(DeltaTable(landing.directory).to_pyarrow_table()) == 3
    assert not [report for report in reports(monitored) if report["stream"] == stream]
    assert monitored.server.log().count("HEADRACE.LANDING") - refused == refusals


@pytest.mark.long
def test_the_tables_of_a_pipeline_report_each_of_their_streams(
    spark: SparkSession, monitored: Broker, tmp_path: Path
) -> None:
    for number, name in enumerate(("ORDERS", "RETURNS"), start=1):
        monitored.make_stream(name=name)
        monitored.publish(f"{name}.a", ["x"] * number)
    (tmp_path / "shop.yml").write_text(PIPELINE)
    found = read_pipeline(tmp_path / "shop.yml")
    options = {"servers": monitored.url}
    with LandingReporter(options) as reporter:
        queries = Queries(
            spark, found, build_views(spark, found, options), options, lambda *_: None, once=True,
            reporter=reporter,
        )  # fmt: skip
        follow(queries.start_all(), queries.start, tallies=queries.tallies)
    last = {report["stream"]: report for report in reports(monitored)}
    assert (last["ORDERS"]["seq"], last["RETURNS"]["seq"]) == (1, 2)
    assert last["ORDERS"]["id"] == last["RETURNS"]["id"]
    assert last["ORDERS"]["rows"] == 3
    assert last["ORDERS"]["table"].endswith("tables/raw")


def test_credentials_in_a_path_are_not_reported(spark: SparkSession) -> None:
    reporter = LandingReporter({})
    report = reporter.landing(
        "x", table="s3a://key:s3cret@lake/orders", format="delta", streams=(), tally=Tally(), progress=None
    )
    assert report._table == "s3a://lake/orders"
    assert report.describe() == []
