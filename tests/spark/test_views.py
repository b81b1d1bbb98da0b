"""A table that does not exist is noticed before Spark starts, and nothing else is."""

from __future__ import annotations

import pytest

from headrace.spark.failure import SparkError
from headrace.spark.views import check_tables, streams_in, tables_in

STREAMS = ["ORDERS", "my-stream"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM ORDERS",
        "select * from orders o join `my-stream` m on o.seq = m.seq",
        "with t as (select 1 from ORDERS) select * from t",
        "with t(a) as (select 1) select a from t",
        "with t as (select 1 as b) select b is distinct from b from t",
        "select extract(year from timestamp) from ORDERS",
        "select trim(both 'x' from subject) from ORDERS",
        "select * from parquet.`data`",
        "select * from range(10)",
        "select 'from nowhere'",
        "select 1 -- from nowhere",
        "show tables from default",
        "describe ORDERS",
    ],
)
def test_a_query_that_may_be_right_passes(query: str) -> None:
    check_tables(query, STREAMS)


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT * FROM a x, b AS y, `c-d` WHERE x.i = y.i", ["a", "b", "c-d"]),
        ("SELECT * FROM cat.a, b", ["b"]),
        ("SELECT * FROM range(5), b LEFT JOIN c ON b.i = c.i", ["b", "c"]),
        ("SELECT * FROM a ORDER BY x, y", ["a"]),
        ("SELECT * FROM a, LATERAL explode(x)", ["a"]),
        ("SELECT i FROM a GROUP BY 1, 2 UNION SELECT j FROM b , c", ["a", "b", "c"]),
        ("SELECT 'FROM x, y' FROM a -- FROM q, r", ["a"]),
    ],
)
def test_the_tables_that_a_query_reads_from(query: str, tables: list[str]) -> None:
    assert tables_in(query) == tables


@pytest.mark.parametrize("query", ["select * from ORDER", "WITH t AS (SELECT 1) SELECT * FROM `nope`"])
def test_a_query_of_nothing_that_exists_names_what_does(query: str) -> None:
    with pytest.raises(SparkError, match=r"stream '(ORDER|nope)' does not exist") as raised:
        check_tables(query, STREAMS)
    assert raised.value.hint == "the streams are ORDERS, my-stream"


def test_a_stream_that_shares_its_name_with_a_table_is_found_by_its_other_name() -> None:
    taken = ["orders", "orders_landed", "orders_dead_letters"]
    assert streams_in("SELECT * FROM ORDERS_stream", STREAMS, taken) == ["ORDERS"]
    assert streams_in("SELECT * FROM orders JOIN `my-stream`", STREAMS, taken) == ["my-stream"]
