"""Pipeline files: errors are reported with their line. No Spark and no server."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.client.credentials import Credentials
from headrace.errors import ConfigError, UsageError
from headrace.spark.pipeline.plan import import_functions
from headrace.spark.pipeline.reading import read_pipeline, seconds_of
from headrace.spark.pipeline.specification import Pipeline
from headrace.spark.table.interface import Settings
from headrace.spark.views import Sources, streams_in

WHOLE = """\
name: shop
server: {url: "nats://${SHOP_HOST}:4222", user: anna, password: "${SHOP_PASSWORD}"}
streams:
  ORDERS: {subjects: [orders.>], duplicate_window: 10 minutes}
spark:
  master: local[2]
  conf: {spark.sql.shuffle.partitions: 2, spark.sql.adaptive.enabled: false}
checkpoint: state
trigger: 5 seconds
sources:
  orders:
    stream: ORDERS
    subject: [orders.eu, orders.us]
    start: latest
    max_rows: 5000
    watermark: {column: timestamp, delay: 10 seconds}
steps:
  large:
    sql: SELECT * FROM orders
  scored:
    python: scoring:score
    from: [large, orders]
sinks:
  raw: {from: orders, table: tables/raw, partition_by: date}
  alerts: {from: scored, subject: alerts.large, trigger: once}
  screen: {from: large, console: true, mode: update, trigger: 500 ms}
"""

SMALL = """\
checkpoint: state
sources:
  orders: {stream: ORDERS}
sinks:
  raw: {from: orders, table: raw}
"""


def read(tmp_path: Path, text: str) -> Pipeline:
    path = tmp_path / "shop.yml"
    path.write_text(text)
    return read_pipeline(path)


def test_a_whole_file_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_HOST", "example.com")
    monkeypatch.setenv("SHOP_PASSWORD", "secret")
    found = read(tmp_path, WHOLE)
    assert (found.name, found.master) == ("shop", "local[2]")
    assert found.conf == {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"}
    assert found.server.urls == ("nats://example.com:4222",)
    assert found.server.credentials == Credentials(user="anna", password="secret")
    assert "secret" not in repr(found)
    assert found.streams[0].duplicate_window == 600
    orders = found.sources[0]
    assert orders.options == {
        "stream": "ORDERS",
        "subject": "orders.eu,orders.us",
        "startingOffsets": "latest",
        "maxOffsetsPerTrigger": "5000",
    }
    assert orders.watermark is not None
    assert orders.watermark.delay == "10 seconds"
    assert [step.inputs for step in found.steps] == [(), ("large", "orders")]
    assert [sink.trigger for sink in found.sinks] == ["5", "once", "0.5"]
    assert found.sinks[0].table == str(tmp_path / "tables" / "raw")
    assert found.checkpoint == str(tmp_path / "state")


def test_a_small_file_is_enough(tmp_path: Path) -> None:
    found = read(tmp_path, SMALL)
    assert found.name == "shop"
    assert found.sources[0].options["startingOffsets"] == "earliest"
    assert not found.server.embedded


def test_a_table_has_a_format_a_key_and_may_never_be_compacted(tmp_path: Path) -> None:
    table = "table: raw, format: iceberg, key: [id, day], compact_after: 0"
    sink = read(tmp_path, SMALL.replace("table: raw", table)).sinks[0]
    assert (sink.settings.format, sink.key, sink.compact_after) == ("iceberg", ("id", "day"), 0)


def test_a_table_may_be_in_a_catalog_and_in_an_object_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_KEY", "hunter2")
    table = "table: s3a://lake/raw, format: iceberg, catalog: lake, catalog_table: sales.raw"
    options = "storage_options: {s3.region: eu, s3.key: '${LAKE_KEY}', s3.token: hunter3, s3.force: true}"
    found = read(tmp_path, SMALL.replace("table: raw", f"{table}, {options}"))
    stored = {
        "s3.region": "eu",
        "s3.key": "hunter2",
        "s3.token": "hunter3",
        "s3.force": "true",
    }
    assert found.sinks[0].settings == Settings("iceberg", stored, "lake", "sales.raw")
    assert "hunter" not in repr(found)


@pytest.mark.parametrize("server", ["server: embedded", "server: {embedded: true, store: streams}"])
def test_a_pipeline_may_have_a_server_of_its_own(tmp_path: Path, server: str) -> None:
    found = read(tmp_path, f"{server}\n{SMALL}")
    assert found.server.embedded
    assert found.server.store == str(tmp_path / "streams")


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("sinks:", "sink:", 4, "a pipeline has no setting `sink`"),
        ("stream: ORDERS", "steam: ORDERS", 3, "the source orders has no setting `steam`"),
        ("{stream: ORDERS}", "{}", 3, "the source orders needs `stream`"),
        ("from: orders", "from: order", 5, "no source or step `order` is defined above"),
        ("table: raw", "mode: append", 5, "the sink raw needs one of `table`, `subject`"),
        ("table: raw", "table: raw, console: true", 5, "the sink raw needs one of `table`, `subject`"),
        (
            "table: raw",
            "table: raw, mode: upsert",
            5,
            "`mode` must be append, update or complete, not upsert",
        ),
        ("table: raw", "table: raw, mode: update", 5, "a table can only be appended to"),
        ("table: raw", "table: raw, trigger: soon", 5, "trigger must be a time such as 10 seconds"),
        ("table: raw", "table: raw, format: orc", 5, "`format` must be delta, iceberg or parquet, not orc"),
        ("table: raw", "table: raw, catalog: lake", 5, "`catalog` is for Iceberg tables"),
        ("table: raw", "table: raw, format: iceberg, catalog: l", 5, "`catalog` needs `catalog_table`"),
        (
            "table: raw",
            "table: raw, format: iceberg, catalog_table: raw",
            5,
            "`catalog_table` must be a namespace and a name, not raw",
        ),
        ("table: raw", "table: raw, storage_options: a=b", 5, "storage_options must be a mapping"),
        (
            "table: raw",
            'table: raw, storage_options: {a: "${NO_SUCH}"}',
            5,
            "the environment has no variable NO_SUCH",
        ),
        ("table: raw", "console: true, storage_options: {a: b}", 5, "`storage_options` belongs to a `table`"),
        ("table: raw", "table: raw, compact_after: -1", 5, "compact_after"),
        ("table: raw", "table: raw, compact_after: false", 5, "compact_after"),
        (
            "{stream: ORDERS}\nsinks:\n  raw: {from: orders,",
            "{stream: [A, B]}\nsinks:\n  raw: {key: id, from: orders,",
            5,
            "a table with a key needs one stream, but orders reads A,B",
        ),
        ("table: raw", "console: true, key: id", 5, "`key` belongs to a `table`"),
        ("table: raw", "subject: a, partition_by: b", 5, "`partition_by` belongs to a `table`"),
        ("ORDERS}", "ORDERS, max_rows: many}", 3, "max_rows must be a whole number, 1 or more, not 'many'"),
        ("  orders:", "  or ders:", 3, "`or ders` cannot be the name of a view"),
        ("checkpoint: state\n", "", 1, "a pipeline needs `checkpoint`"),
        ("checkpoint: state", "checkpoint: [a]", 1, "checkpoint must be a text"),
        ("raw}", "raw", 6, "this is not YAML"),
        ("  raw:", "  raw: {from: orders, console: true}\n  raw:", 6, "`raw` is given twice"),
        ("sinks:", "steps:\n  a: {sql: SELECT 1, python: a:b}\nsinks:", 5, "needs either `sql` or `python`"),
        (
            "sinks:",
            "steps:\n  a: {python: a.b, from: orders}\nsinks:",
            5,
            "must be module:function, not 'a.b'",
        ),
        (
            "sinks:",
            "steps:\n  orders: {sql: SELECT 1}\nsinks:",
            5,
            "`orders` is the name of a source or step",
        ),
        ("sinks:", "server: embeded\nsinks:", 4, "`embeded` is neither a URL nor `embedded`"),
        ("sinks:", "server: {user: a}\nsinks:", 4, "a server has either a `url`, or `embedded: true`"),
        ("sinks:", 'server: "nats://${NO_SUCH}"\nsinks:', 4, "the environment has no variable NO_SUCH"),
        ("sinks:", "sources2: !!python/name:os.system\nsinks:", 4, "this value cannot be used"),
    ],
)
def test_a_mistake_is_reported_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, told: str
) -> None:
    assert old in SMALL
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, SMALL.replace(old, new, 1))
    assert told in str(raised.value)
    assert raised.value.line == line
    assert str(raised.value).startswith(f"{tmp_path}/shop.yml:{line}:")
    assert "\n" not in str(raised.value)


def test_a_typing_mistake_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, SMALL.replace("sinks", "snks"))
    assert raised.value.hint == "did you mean `sinks`?"


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_an_empty_file_is_reported(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="the file is empty"):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*none.yml: No such file or directory"):
        read_pipeline(tmp_path / "none.yml")


@pytest.mark.parametrize(
    ("module", "told"),
    [
        (None, "cannot import scoring_"),
        ("raise RuntimeError('not today')", "cannot import scoring_.*: RuntimeError: not today"),
        ("score = 1", "scoring_.* has no function score"),
    ],
)
def test_a_function_that_cannot_be_used_is_reported_with_its_line(
    tmp_path: Path, module: str | None, told: str
) -> None:
    name = f"scoring_{abs(hash(module))}"
    if module is not None:
        (tmp_path / f"{name}.py").write_text(module)
    step = f"steps:\n  scored: {{python: {name}:score, from: orders}}\nsinks:"
    found = read(tmp_path, SMALL.replace("sinks:", step))
    with pytest.raises(ConfigError, match=told) as raised:
        import_functions(found)
    assert raised.value.line == 5


@pytest.mark.parametrize(
    ("text", "seconds"), [("10", 10), ("10 seconds", 10), ("500ms", 0.5), ("2 minutes", 120), ("1h", 3600)]
)
def test_times_have_units(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM orders", ["ORDERS"]),
        ("SELECT * FROM ORDERS o JOIN `PAY-MENTS` p", ["ORDERS", "PAY-MENTS"]),
        ("SELECT 1", []),
        ("show views", ["ORDERS", "PAY-MENTS"]),
    ],
)
def test_only_streams_of_the_query_become_views(query: str, expected: list[str]) -> None:
    assert streams_in(Sources(query), ["ORDERS", "PAY-MENTS"]) == expected
