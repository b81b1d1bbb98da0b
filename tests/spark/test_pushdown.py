"""Filter pushdown: less is read, and the answer is the same."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from headrace.spark.options import Use, read_options
from headrace.spark.reading.partitions import StreamPartition
from headrace.spark.reading.pushdown import PushdownReader
from headrace.spark.session import SETTINGS
from tests.spark.conftest import Broker, Nats
from tests.spark.test_batch_read import reason

pytestmark = pytest.mark.timeout(180)

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def stream(broker: Broker) -> str:
    name = broker.make_stream()
    for number in range(1, 11):
        broker.publish(f"{name}.{'even' if number % 2 == 0 else 'odd'}.n{number}", [str(number)])
    return name


def asked_for(
    broker: Broker, stream: str, *filters: Filter, **options: str
) -> tuple[int, int, tuple[str, ...]]:
    """First, last and subjects of what is asked for when Spark pushes these filters down; 0, 0 is nothing."""
    given = {"servers": broker.url, "stream": stream, "filterPushdown": "true"} | options
    reader = PushdownReader(read_options(given, Use.BATCH))
    assert list(reader.pushFilters(list(filters))) == list(filters), "Spark applies them all the same"
    partitions: list[Any] = list(reader.partitions())
    assert all(isinstance(partition, StreamPartition) for partition in partitions)
    subjects = tuple(subject.removeprefix(f"{stream}.") for subject in reader.subjects())
    return (partitions[0].first, partitions[-1].last, subjects) if partitions else (0, 0, subjects)


@pytest.mark.parametrize(
    ("filters", "range_"),
    [
        ([EqualTo(("seq",), 4)], (4, 4)),
        ([GreaterThan(("seq",), 4), LessThanOrEqual(("seq",), 6)], (4, 6)),
        ([GreaterThanOrEqual(("seq",), 4), LessThan(("seq",), 6)], (4, 6)),
        ([In(("seq",), (7, 3, 5))], (3, 7)),
        ([EqualTo(("seq",), 40)], (0, 0)),
        ([Not(EqualTo(("seq",), 4))], (1, 10)),
        ([EqualTo(("headers", "seq"), 4)], (1, 10)),
        ([EqualTo(("stream",), "another")], (0, 0)),
    ],
)
def test_a_filter_narrows_the_range(
    broker: Broker, stream: str, filters: list[Filter], range_: tuple[int, int]
) -> None:
    assert asked_for(broker, stream, *filters)[:2] == range_


@pytest.mark.parametrize(
    ("pushed", "option", "subjects"),
    [
        (EqualTo(("subject",), "S.odd.n1"), "", ("odd.n1",)),
        (In(("subject",), ("S.odd.n1", "S.even.n2")), "", ("even.n2", "odd.n1")),
        (In(("subject",), ("S.odd.n1", "S.even.n2")), "S.odd.>", ("odd.n1",)),
        (StringStartsWith(("subject",), "S.odd."), "", ("odd.>",)),
        (StringStartsWith(("subject",), "S.od"), "", ()),
        (StringStartsWith(("subject",), "S.odd."), "S.*.n1", ("*.n1",)),
        (EqualTo(("subject",), "S.*.n1"), "", ()),
    ],
)
def test_a_filter_on_the_subject_becomes_one_of_the_server(
    broker: Broker, stream: str, pushed: Any, option: str, subjects: tuple[str, ...]
) -> None:
    value = pushed.value
    here = tuple(text.replace("S.", f"{stream}.") for text in ((value,) if isinstance(value, str) else value))
    condition = type(pushed)(pushed.attribute, here[0] if isinstance(value, str) else here)
    options = {"subject": option.replace("S.", f"{stream}.")} if option else {}
    assert asked_for(broker, stream, condition, **options)[2] == subjects


def test_a_subject_that_the_option_excludes_asks_for_nothing(broker: Broker, stream: str) -> None:
    condition = EqualTo(("subject",), f"{stream}.even.n2")
    assert asked_for(broker, stream, condition, subject=f"{stream}.odd.>")[:2] == (0, 0)


def test_the_answer_is_the_same_with_and_without(on: Nats, stream: str) -> None:
    moments = {row.seq: row.timestamp.replace(tzinfo=UTC) for row in on.read(stream).collect()}
    conditions = [
        "seq BETWEEN 3 AND 5",
        "seq > 8 OR seq < 2",
        f"subject = '{stream}.odd.n3'",
        f"subject LIKE '{stream}.even.%' AND seq > 4",
        f"timestamp > TIMESTAMP '{moments[3].isoformat()}'",
        f"timestamp <= TIMESTAMP '{moments[7].isoformat()}' AND seq > 1",
        f"timestamp = TIMESTAMP '{moments[5].isoformat()}'",
        f"timestamp > TIMESTAMP '{(moments[10] + timedelta(days=1)).isoformat()}'",
    ]
    for condition in conditions:
        found, expected = (
            sorted(row.seq for row in on.read(stream, filterPushdown=pushed).where(condition).collect())
            for pushed in (True, False)
        )
        assert found == expected, condition


def test_the_source_works_with_sparks_default_setting_and_says_what_pushdown_needs(
    on: Nats, stream: str
) -> None:
    """With the setting off, Spark fails every read of a reader that can push filters down."""
    on.spark.conf.set(PUSHDOWN, "false")
    try:
        assert on.read(stream).where("seq > 8").count() == 2
        assert PUSHDOWN in reason(lambda: on.read(stream, filterPushdown=True).where("seq > 8").count())
    finally:
        on.spark.conf.set(PUSHDOWN, "true")
    assert on.read(stream, filterPushdown=True).where("seq > 8").count() == 2


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/St_Johns"])
def test_times_are_the_same_in_any_time_zone_of_the_session(on: Nats, zone: str) -> None:
    stream = on.broker.make_stream()
    for letter in "abc":
        on.broker.publish(f"{stream}.a", [letter])
        time.sleep(0.002)
    expected = [row[0] for row in on.read(stream).selectExpr("unix_micros(timestamp)").sort("seq").collect()]
    elsewhere = replace(on, spark=on.spark.newSession())
    for name, value in SETTINGS.items():
        elsewhere.spark.conf.set(name, value)
    elsewhere.spark.conf.set("spark.sql.session.timeZone", zone)
    columns = "unix_micros(timestamp)", "string(timestamp)"
    rows = elsewhere.read(stream).selectExpr(*columns).sort("seq").collect()
    assert [row[0] for row in rows] == expected
    later = elsewhere.read(stream, filterPushdown=True).where(f"timestamp >= TIMESTAMP '{rows[1][1]}'")
    assert sorted(bytes(row.data) for row in later.collect()) == [b"b", b"c"]
