"""Tables with a key: what is older never replaces what is newer, also if it lands later."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headrace.spark.land import Landing, start_landing
from headrace.spark.payload.schema import read_schema
from headrace.spark.table.dead_letter_retry import Retried, Retry
from headrace.spark.table.interface import Settings
from headrace.spark.table.opening import open_table
from tests.spark.conftest import ONE_SERVER, Nats

pytestmark = [
    pytest.mark.timeout(300),
    ONE_SERVER,
    pytest.mark.parametrize("form", ["delta", pytest.param("iceberg", marks=pytest.mark.slow)]),
]

NARROW, WIDE = "id TINYINT", "id BIGINT"
Land = Callable[..., None]


@pytest.fixture
def land(on: Nats, form: str) -> Land:
    """Lands what is in a stream now; the last token of a subject is the key."""

    def run(stream: str, schema: str = NARROW, **settings: Any) -> None:
        decoding = replace(read_schema(schema), subject=f"{stream}.{{name}}", key=("name",)).checked()
        landing = Landing(
            stream,
            str(on.directory / "table"),
            {"servers": on.broker.url},
            "none",
            settings=Settings(form),
            decoding=decoding,
            **settings,
        )
        start_landing(on.spark, landing, once=True).awaitTermination()

    return run


def publish(on: Nats, stream: str, *messages: tuple[str, int | None]) -> None:
    """Names with a number, or without one: those are deleted."""
    for name, number in messages:
        on.broker.publish(f"{stream}.{name}", ["" if number is None else json.dumps({"id": number})])


def opened(on: Nats) -> Any:
    return open_table(on.spark, str(on.directory / "table"), Settings())


def found(on: Nats) -> dict[str, int]:
    rows = [(row["name"], row["id"]) for row in opened(on).read(on.spark).collect()]
    assert len(dict(rows)) == len(rows)
    return dict(rows)


def deletions(on: Nats) -> int:
    return len(list((on.directory / "table" / "_headrace" / "deletions").glob("*.parquet")))


@pytest.mark.parametrize("rows_per_batch", [pytest.param(4, marks=pytest.mark.slow), 100])
def test_a_dead_letter_brings_back_nothing_that_was_deleted_or_replaced_since(
    on: Nats, land: Land, rows_per_batch: int
) -> None:
    stream = on.broker.make_stream()
    publish(on, stream, ("a", 1), ("a", 300), ("b", 300), ("c", 300), ("d", None), ("d", 300))
    publish(on, stream, ("a", None), ("b", 5), ("e", 300), ("e", 6), ("e", None))
    land(stream, rows_per_batch=rows_per_batch)
    assert found(on) == {"b": 5}
    land(stream, WIDE)
    retry = Retry(on.spark, str(on.directory / "table"), Settings())
    assert retry.run() == Retried(5, 0)
    assert found(on) == {"b": 5, "c": 300, "d": 300}
    assert (retry.letters.files(), deletions(on)) == ([], 0)
    publish(on, stream, ("c", None), ("a", 7))
    land(stream, WIDE)
    assert found(on) == {"a": 7, "b": 5, "d": 300}
    assert deletions(on) == 0  # nothing waits any more


def test_deletions_are_kept_as_long_as_a_dead_letter_waits(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    publish(on, stream, ("a", 300), ("b", 2**70))
    for name in "abab":
        publish(on, stream, (name, None))
        land(stream)
    assert deletions(on) == 4
    land(stream, WIDE)
    directory = str(on.directory / "table")
    assert Retry(on.spark, directory, Settings()).run() == Retried(1, 1)
    assert (found(on), deletions(on)) == ({}, 1)
    assert Retry(on.spark, directory, Settings()).run() == Retried(0, 1)
    publish(on, stream, ("b", 9))
    land(stream, WIDE)
    assert found(on) == {"b": 9}


def test_a_key_that_is_deleted_during_a_retry_stays_deleted(
    on: Nats, land: Land, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch comes after the retry has looked at the deletions, and before its commit."""
    stream = on.broker.make_stream()
    publish(on, stream, ("a", 300), ("b", 300))
    land(stream)
    land(stream, WIDE)
    retry = Retry(on.spark, str(on.directory / "table"), Settings())
    upsert, calls = retry.table.upsert, []

    def late(*arguments: Any, **options: Any) -> None:
        calls.append(options)
        if len(calls) == 1:
            publish(on, stream, ("a", None))
            land(stream, WIDE)
        upsert(*arguments, **options)

    monkeypatch.setattr(retry.table, "upsert", late)
    assert retry.run() == Retried(2, 0)
    assert len(calls) == 2
    assert found(on) == {"b": 300}


def test_a_batch_that_changes_nothing_is_committed(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    publish(on, stream, ("a", 1))
    land(stream)
    publish(on, stream, ("b", None))
    land(stream)
    latest = opened(on).latest()
    assert (latest.batch, latest.positions[stream].next) == (1, 3)
    assert found(on) == {"a": 1}
