"""Which version of a table is meant, and which table DESCRIBE HISTORY asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql import SparkSession

from headrace.errors import UsageError
from headrace.spark.table_views import NamedTable, history_of, needs_streams, parse_as_of
from headrace.spark.views import read_by

ORDERS = NamedTable("orders", "/lake/orders", completable=True)
REVENUE = NamedTable("revenue", "/lake/revenue", completable=False)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("orders", "has no version"),
        ("orders=", "has no version"),
        ("other=1", "there is no table other"),
        ("orders=yesterday", "yesterday is neither a version nor a time"),
        ("orders=99999999999999999999", "99999999999999999999 is neither a version nor a time"),
    ],
)
def test_a_version_that_cannot_be_meant_is_refused(given: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse_as_of([given], [ORDERS])


def test_a_version_is_a_number_or_a_time() -> None:
    assert parse_as_of(["orders=42"], [ORDERS]) == {"orders": 42}
    noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
    assert parse_as_of(["orders=2026-11-16T12:00:00"], [ORDERS]) == {"orders": noon}
    east = datetime(2026, 11, 16, 14, tzinfo=timezone(timedelta(hours=2)))
    assert parse_as_of(["orders=2026-11-16T14:00:00+02:00"], [ORDERS]) == {"orders": east}


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("DESCRIBE HISTORY orders", "orders"),
        (" desc history `big orders`; ", "big orders"),
        ("describe history `orders`;", "orders"),
        ("DESCRIBE orders", ""),
        ("SELECT history FROM orders", ""),
    ],
)
def test_the_table_of_describe_history(query: str, name: str) -> None:
    assert history_of(query) == name


@pytest.mark.parametrize(
    ("query", "needed"),
    [
        ("SELECT * FROM orders", True),
        ("SELECT * FROM orders_landed", False),
        ("SELECT * FROM orders_dead_letters", False),
        ("SELECT * FROM revenue", False),
        ("SELECT * FROM revenue JOIN ALERTS", True),
        ("SELECT * FROM orders_landed l, ALERTS AS a WHERE l.seq = a.seq", True),
        ("SELECT * FROM orders_landed, revenue r JOIN orders_dead_letters", False),
        ("SELECT 'orders' FROM revenue", False),
        ("SELECT * FROM (SELECT 1) AS one, ALERTS", True),
        ("SELECT * FROM revenue, ALERTS", True),
        ("WITH ALERTS AS (SELECT * FROM revenue) SELECT * FROM ALERTS", False),
        ("EXECUTE IMMEDIATE 'SELECT * FROM ALERTS'", True),
        ("SELECT * FROM parquet.`x`", False),
    ],
)
def test_a_server_is_asked_only_for_a_stream(spark: SparkSession, query: str, needed: bool) -> None:
    sources = read_by(spark, query)
    assert needs_streams(sources, [ORDERS, REVENUE], {}) == needed
    if query.endswith("orders"):
        assert not needs_streams(sources, [ORDERS, REVENUE], {"orders": 3})
