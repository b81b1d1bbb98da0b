"""Pipelines run: streams through SQL and Python into tables and streams, once, also after a restart."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.cli.spark.follow import follow
from headrace.cli.spark.pipeline import _show
from headrace.client import Client, ConnectionFailed
from headrace.errors import ConfigError, UsageError
from headrace.spark import recovery
from headrace.spark.failure import readable_errors
from headrace.spark.pipeline.plan import build_views
from headrace.spark.pipeline.reading import read_pipeline
from headrace.spark.pipeline.run import Queries, Show, _whole
from headrace.spark.pipeline.specification import Pipeline
from headrace.spark.pipeline.streams import check_names, check_sinks, make_streams
from headrace.spark.progress import Progress
from headrace.spark.recovery import ATTEMPTS
from headrace.spark.start import TOO_LATE
from headrace.spark.table.batch_files import settings_of
from headrace.spark.views import make_views, read_by, streams_in
from tests.spark.conftest import ONE_SERVER, Nats

# What is above the data source is the same for every server: the tests of the source run with all of them.
pytestmark = [pytest.mark.timeout(240), ONE_SERVER]

FILE = """\
checkpoint: state
streams:
  ALERTS_OF_ORDERS: {subjects: [alerts.ORDERS.>], duplicate_window: 11 minutes}
sources:
  messages: {stream: ORDERS}
steps:
  orders:
    sql: >
      SELECT order.*, seq, timestamp
      FROM (SELECT from_json(string(data), 'id INT, country STRING, amount INT') AS order, * FROM messages)
    watermark: {column: timestamp, delay: 1 second}
  large:
    python: pipeline_functions:keep_large
    from: orders
  alerts:
    sql: >
      SELECT concat('alerts.ORDERS.', country) AS subject, to_json(struct(id)) AS data, string(id) AS msgId
      FROM large
sinks:
  raw: {from: orders, table: tables/raw, partition_by: country}
  latest: {from: orders, table: tables/latest, key: country, compact_after: 0}
  alerts: {from: alerts, stream: ALERTS_OF_ORDERS}
  screen: {from: large, console: true}
"""

FUNCTIONS = """\
def keep_large(orders):
    return orders.where("amount >= 100")
"""


def write_pipeline(on: Nats, stream: str, text: str = FILE) -> Pipeline:
    path = on.directory / "shop.yml"
    path.write_text(text.replace("ORDERS", stream))
    (on.directory / "pipeline_functions.py").write_text(FUNCTIONS)
    return read_pipeline(path)


def order(number: int, amount: int) -> str:
    return json.dumps({"id": number, "country": "es" if number % 2 else "pt", "amount": amount})


def test_a_pipeline_runs_and_continues_after_a_restart(on: Nats) -> None:
    stream = on.broker.make_stream()
    found = write_pipeline(on, stream)
    options = {"servers": on.broker.url}
    shown: list[tuple[str, list[Any]]] = []

    def run() -> dict[str, Progress]:
        views = build_views(on.spark, found, options)
        show = lambda name, rows: shown.append((name, rows.collect()))  # noqa: E731
        queries = Queries(on.spark, found, views, options, show, once=True)
        return follow(queries.start_all(), queries.start, tallies=queries.tallies)

    with Client.connect(on.broker.url) as client:
        check_names(client, found)
        assert make_streams(client, found) == [f"ALERTS_OF_{stream}"]
        assert make_streams(client, found) == []
        assert list(check_sinks(client, found)) == []
    on.broker.publish(f"{stream}.a", [order(1, 50), order(2, 200), order(3, 300)])
    progress = run()["raw"]
    assert (progress.rows, progress.rows_read, progress.lag) == (3, 3, 0)
    assert progress.batch_seconds > 0
    on.broker.publish(f"{stream}.a", [order(4, 400)])
    run()
    table = DeltaTable(on.directory / "tables" / "raw").to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["country"], row["amount"]) for row in table) == [
        (1, "es", 50),
        (2, "pt", 200),
        (3, "es", 300),
        (4, "pt", 400),
    ]
    latest = DeltaTable(on.directory / "tables" / "latest").to_pyarrow_table().to_pylist()
    assert sorted((row["country"], row["id"]) for row in latest) == [("es", 3), ("pt", 4)]
    alerts = on.broker.messages(f"ALERTS_OF_{stream}")
    assert sorted((message.subject, message.data) for message in alerts) == [
        (f"alerts.{stream}.es", b'{"id":3}'),
        (f"alerts.{stream}.pt", b'{"id":2}'),
        (f"alerts.{stream}.pt", b'{"id":4}'),
    ]
    assert sorted(row.id for name, rows in shown for row in rows) == [2, 3, 4]
    assert {name for name, _ in shown} == {"screen"}
    shutil.rmtree(on.directory / "state" / "raw")  # a query that forgot where it was must not land all again
    with pytest.raises(PySparkException, match="of another query"):
        run()
    assert DeltaTable(on.directory / "tables" / "raw").to_pyarrow_table().num_rows == 4


def test_what_the_console_shows_keeps_its_order(on: Nats) -> None:
    rows = _whole(on.spark.range(1000, numPartitions=4).orderBy(F.desc("id")))
    assert rows.columns == ["id"]
    assert [row.id for row in rows.limit(3).collect()] == [999, 998, 997]


COUNTS = """\
checkpoint: state
sources:
  messages: {stream: ORDERS}
steps:
  words:
    sql: >
      SELECT timestamp_seconds(int(split_part(string(data), ' ', 1))) AS time,
             split_part(string(data), ' ', 2) AS word
      FROM messages
    watermark: {column: time, delay: 1 second}
  counts:
    sql: "SELECT word, count(*) AS number FROM words GROUP BY window(time, '10 seconds'), word"
sinks:
  counts: {from: counts, table: tables/counts}
  screen: {from: counts, console: true}
"""


def test_a_repeated_batch_of_a_query_with_state_is_not_landed_again_but_computed(
    on: Nats, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table has the batch, and Spark does not know it: as if it was killed in between."""
    stream = on.broker.make_stream()
    found = write_pipeline(on, stream, COUNTS)
    options = {"servers": on.broker.url}
    words = [f"word-{number}" for number in range(100)]  # more than a screen shows, in each partition

    def run() -> None:
        with settings_of(on.spark, {"spark.sql.shuffle.partitions": "2"}):
            views = build_views(on.spark, found, options)
            queries = Queries(on.spark, found, views, options, _show, once=True)
            follow(queries.start_all(), queries.start, tallies=queries.tallies)

    on.broker.publish(f"{stream}.a", [*(f"0 {word}" for word in words), "20 again"])
    run()
    assert "word-" in capsys.readouterr().out
    commits = on.directory / "state" / "counts" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    on.broker.publish(f"{stream}.a", ["21 again", "40 later"])
    run()
    table = DeltaTable(on.directory / "tables" / "counts").to_pyarrow_table().to_pylist()
    found_words = sorted((row["word"], row["number"]) for row in table)
    assert found_words == sorted([*((word, 1) for word in words), ("again", 2)])


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("struct(id)", "struct(idd)", 16, "idd"),
        ("SELECT order.*, seq", "SELEC order.*, seq", 8, "SELEC"),
        ("column: timestamp", "column: moment", 8, "moment"),
        ("amount INT'", "amount NUMBERS'", 8, "Syntax error"),
    ],
)
def test_sql_that_is_wrong_is_reported_with_the_line_of_its_step(
    on: Nats, old: str, new: str, line: int, told: str
) -> None:
    assert old in FILE
    found = write_pipeline(on, "ORDERS", FILE.replace(old, new))
    with pytest.raises(ConfigError) as raised:
        build_views(on.spark, found, {})
    assert raised.value.line == line
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_streams_that_are_not_there_are_told_before_spark_starts(on: Nats) -> None:
    found = write_pipeline(on, "NOWHERE")
    with Client.connect(on.broker.url) as client, pytest.raises(ConfigError) as raised:
        check_names(client, found)
    assert "the server has no stream NOWHERE" in str(raised.value)
    assert raised.value.line == 5


def test_a_stream_to_write_to_that_is_not_there_is_reported_with_its_line(on: Nats) -> None:
    sinks = "sinks:\n  copy: {from: messages, stream: NOWHERE, subject: a.b}\n"
    text = f"checkpoint: c\nsources:\n  messages: {{stream: ORDERS}}\n{sinks}"
    found = write_pipeline(on, on.broker.make_stream(), text)
    with Client.connect(on.broker.url) as client, pytest.raises(ConfigError) as raised:
        check_names(client, found)
    assert "the server has no stream NOWHERE" in str(raised.value)
    assert raised.value.line == 5


@pytest.mark.parametrize("target_option", ["subject: {}.copy", "stream: {}"])
def test_a_short_duplicate_window_is_reported(on: Nats, target_option: str) -> None:
    source, target = on.broker.make_stream(), on.broker.make_stream(duplicate_window=5)
    sinks = f"sinks:\n  copy: {{from: messages, {target_option.format(target)}}}\n"
    found = write_pipeline(on, source, f"checkpoint: c\nsources:\n  messages: {{stream: ORDERS}}\n{sinks}")
    with Client.connect(on.broker.url) as client:
        warnings = list(check_sinks(client, found))
    assert len(warnings) == 1
    assert f"the stream {target} recognises duplicates for 5 s" in warnings[0]


def test_a_query_that_cannot_start_stops_the_others(on: Nats) -> None:
    stream = on.broker.make_stream()
    (on.directory / "taken").mkdir()
    (on.directory / "taken" / "letter.txt").write_text("dear")
    text = FILE.replace("screen: {from: large, console: true}", "wrong: {from: large, table: taken}")
    found = write_pipeline(on, stream, text.replace("raw:", "zzz:"))
    views = build_views(on.spark, found, {"servers": on.broker.url})
    with pytest.raises(UsageError, match="contains files that do not belong to this table"):
        Queries(on.spark, found, views, {"servers": on.broker.url}, lambda name, rows: None).start_all()
    assert on.spark.streams.active == []


# Failures that may pass


def queries_of_one_order(on: Nats, show: Show) -> Queries:
    """To the screen only."""
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", [order(1, 200)])
    sinks = FILE.partition("sinks:")[2]
    found = write_pipeline(on, stream, FILE.replace(sinks, "\n  screen: {from: large, console: true}\n"))
    options = {"servers": on.broker.url}
    return Queries(on.spark, found, build_views(on.spark, found, options), options, show, once=True)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "LONGEST_PAUSE_SECONDS", 0.01)


@pytest.mark.usefixtures("impatient")
def test_a_query_whose_failure_may_pass_is_restarted_and_says_so(
    on: Nats, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []

    def show(name: str, rows: DataFrame) -> None:
        shown.append(rows.collect())
        if len(shown) == 1:
            raise RuntimeError(TOO_LATE)  # as Spark says it when a process has not started in 10 seconds
        if len(shown) == 2:
            with readable_errors():
                raise ConnectionFailed("no server listens at 10.0.0.7:4222")

    queries = queries_of_one_order(on, show)
    progress = follow(queries.start_all(), queries.start, tallies=queries.tallies)
    assert [[row.id for row in rows] for rows in shown] == [[1], [1], [1]]
    assert progress["screen"].rows_read == 1
    told = [line for line in capsys.readouterr().err.splitlines() if "restart" in line]
    assert told == [
        f"headrace: screen: {TOO_LATE}; restart 1 of {ATTEMPTS} in 0.01 s",
        f"headrace: screen: no server listens at 10.0.0.7:4222; restart 2 of {ATTEMPTS} in 0.01 s",
    ]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("failure", ["something else", TOO_LATE])
def test_a_query_that_fails_time_after_time_is_given_up(
    on: Nats, failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery.Attempts.__init__, "__defaults__", (2,))
    shown = []

    def show(name: str, rows: DataFrame) -> None:
        shown.append(name)
        raise RuntimeError(failure)

    queries = queries_of_one_order(on, show)
    with pytest.raises(PySparkException, match=failure):
        follow(queries.start_all(), queries.start, tallies=queries.tallies)
    assert len(shown) == (3 if failure == TOO_LATE else 1)
    assert on.spark.streams.active == []


def test_a_checkpoint_that_cannot_be_written_is_reported_with_the_line_of_its_sink(on: Nats) -> None:
    stream = on.broker.make_stream()
    (on.directory / "letter").write_text("dear")
    text = FILE.replace("checkpoint: state", "checkpoint: letter/state")
    found = write_pipeline(on, stream, text[: text.index("  raw:")] + text[text.index("  screen:") :])
    views = build_views(on.spark, found, {"servers": on.broker.url})
    with pytest.raises(ConfigError, match=r"letter") as raised:
        Queries(on.spark, found, views, {"servers": on.broker.url}, lambda name, rows: None).start_all()
    assert raised.value.line == text[: text.index("  raw:")].count("\n") + 1
    assert "\n" not in str(raised.value)


# Views for SQL


def test_streams_are_views_by_their_names(on: Nats) -> None:
    one, other = (
        on.broker.make_stream(),
        on.broker.make_stream(["dashed.>"], name=f"with-dash-{on.broker.server.kind}"),
    )
    on.broker.publish(f"{one}.a", list("abc"))
    on.broker.publish("dashed.a", list("de"))
    query = f"SELECT (SELECT count(*) FROM {one}), (SELECT count(*) FROM `{other}`)"
    streams = streams_in(read_by(on.spark, query), [one, other, "UNRELATED"])
    assert streams == [one, other]
    make_views(on.spark, streams, {"servers": on.broker.url})
    assert tuple(on.spark.sql(query).collect()[0]) == (3, 2)


def test_the_example_can_be_run(on: Nats) -> None:
    found = read_pipeline(Path(__file__).parents[2] / "examples" / "shop" / "shop.yml")
    views = build_views(on.spark, found, {})
    assert views["alerts"].columns == ["subject", "data", "msgId"]
    assert views["revenue"].columns == ["start", "country", "orders", "revenue"]


def test_paths_are_relative_to_the_file(on: Nats) -> None:
    found = write_pipeline(on, "ORDERS")
    assert Path(found.sinks[0].table) == on.directory / "tables" / "raw"
