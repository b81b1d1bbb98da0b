"""A table is the same whether payloads are decoded while they are read, or by Spark alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from headrace.client import Client
from headrace.spark import land as landing_module
from headrace.spark.land import Landing, start_landing
from headrace.spark.payload.decoding import DECODED
from headrace.spark.payload.schema import read_schema
from headrace.spark.pipeline.plan import build_views
from headrace.spark.pipeline.reading import read_pipeline
from headrace.spark.pipeline.run import Queries
from headrace.spark.table.interface import Settings
from headrace.spark.table.layout import DEAD_LETTERS
from headrace.spark.table.opening import open_table
from tests.spark.conftest import ONE_SERVER, Nats
from tests.spark.payload import flat_payloads

pytestmark = [pytest.mark.timeout(300), ONE_SERVER]

ORDERS = [
    b'{"id":1,"who":"Ada","amount":"12.50","at":"2026-11-17T12:00:00.123456789+01:00"}',
    b'{"at":null,"amount":7,"id":2,"more":{"a":[1,2]}}',
    b'{"id":3,"who":7,"amount":1.50}',  # a number in a STRING column
    b'{"id":4,"amount":1.005}',
    b'{"id":1,"who":"Grace"}',
    b'{"who":"nobody"}',
    b"{",
    b"",
    b'{"id":5,"id":6,"who":"\\u00e9"}',
    b'{"id":7,"who":"\xff"}',
]
DDL = "id BIGINT, who STRING, amount DECIMAL(10, 2), at TIMESTAMP"


def publish(on: Nats, subject: str, payloads: list[bytes]) -> None:
    with Client.connect(on.broker.url) as client:
        publisher = client.publisher()
        publisher.publish(subject, pyarrow.array(payloads, pyarrow.binary()))
        publisher.flush()


def contents(on: Nats, directory: str) -> list[str]:
    """All rows and dead letters."""
    found: list[Any] = []
    for place in (directory, f"{directory}/{DEAD_LETTERS}"):
        found += open_table(on.spark, place, Settings()).read(on.spark).toArrow().to_pylist()
    return sorted(map(repr, found))


@pytest.mark.parametrize("key", [(), ("id",)], ids=["rows", "key"])
def test_a_table_is_the_same_with_and_without_early_decoding(
    on: Nats, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
) -> None:
    stream = on.broker.make_stream()
    for country in ("de", "de.south"):
        publish(on, f"{stream}.{country}", ORDERS)
    decoding = replace(read_schema(DDL), subject=f"{stream}.{{country}}", key=key).checked()
    tables = []
    for name in ("early", "late"):
        directory = str(on.directory / name)
        landing = Landing(
            stream, directory, {"servers": on.broker.url}, settings=Settings("delta"), decoding=decoding
        )
        start_landing(on.spark, landing, once=True).awaitTermination()
        tables.append(contents(on, directory))
        monkeypatch.setattr(landing_module, "early_option", lambda decoding: {})
    early, late = tables
    assert early == late
    assert len(early) > len(ORDERS)


def test_a_source_decodes_what_spark_would_not_have_to(on: Nats) -> None:
    """And it is read like any other: with its headers, from an offset, in several partitions."""
    stream = on.broker.make_stream()
    payloads = list(flat_payloads.objects(5, 400))
    publish(on, f"{stream}.x", payloads)
    options = {"servers": on.broker.url, "stream": stream, "headrace.jsonSchema": flat_payloads.SCHEMA}
    source = on.spark.read.format("nats").options(**options, startingOffsets=json.dumps({stream: 101}))
    rows = source.option("minPartitions", "3").load()
    found = rows.selectExpr("seq", "data", f"{DECODED}.q", f"{DECODED} IS NOT NULL AS is_decoded").collect()
    assert [row["seq"] for row in sorted(found, key=lambda row: row["seq"])] == list(range(101, 401))
    assert 100 < sum(row["is_decoded"] for row in found) < 300
    assert all(bytes(row["data"]) == payloads[row["seq"] - 1] for row in found)
    assert all(row["q"] == json.loads(row["data"])["q"] for row in found if row["is_decoded"])


def test_only_the_typed_tables_of_a_pipeline_see_what_was_decoded(on: Nats, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        f"server: {{url: '{on.broker.url}'}}\n"
        "checkpoint: state\n"
        "sources: {orders: {stream: ORDERS}}\n"
        "sinks:\n"
        "  typed: {from: orders, table: typed, schema: 'id BIGINT', payload: json}\n"
        "  nested: {from: orders, table: nested, schema: 'ids ARRAY<BIGINT>', payload: json}\n"
        "  raw: {from: orders, table: raw}\n"
    )
    pipeline = read_pipeline(path)
    options = {"servers": on.broker.url}
    views = build_views(on.spark, pipeline, options)
    queries = Queries(on.spark, pipeline, views, options, lambda name, rows: None)
    seen = {sink.name: DECODED in queries.rows_of(sink).columns for sink in pipeline.sinks}
    assert seen == {"typed": True, "nested": False, "raw": False}
    assert DECODED not in views["orders"].columns
