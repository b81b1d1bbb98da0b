"""What a query reads from; a table that does not exist is noticed before Spark starts."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.spark.failure import SparkError
from headrace.spark.views import Sources, check_tables, read_by, streams_in, tables_in

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
    assert streams_in(Sources("SELECT * FROM ORDERS_stream"), STREAMS, taken) == ["ORDERS"]
    assert streams_in(Sources("SELECT * FROM orders JOIN `my-stream`"), STREAMS, taken) == ["my-stream"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT * FROM orders_landed, STREAM", {"orders_landed", "stream"}),
        ("SELECT * FROM (SELECT 1 AS i) AS s, A, `b-C` AS b", {"a", "b-c"}),
        ("SELECT * FROM a TABLESAMPLE (10 PERCENT), LATERAL (SELECT * FROM b)", {"a", "b"}),
        ("SELECT * FROM `from x, y`", {"from x, y"}),
        ("SELECT 'FROM x', \"FROM y\", r'FROM z' FROM a -- FROM q\n /* FROM r */ , b", {"a", "b"}),
        (
            "SELECT (SELECT max(i) FROM a), EXISTS (SELECT 1 FROM b) FROM c WHERE i IN (SELECT i FROM d)",
            set("abcd"),
        ),
        ("WITH t AS (SELECT * FROM a), u(i) AS (SELECT * FROM t) SELECT * FROM T JOIN u JOIN v", {"a", "v"}),
        ("WITH a AS (SELECT * FROM A) SELECT * FROM a", {"a"}),
        ("SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t), t", {"t"}),
        ("WITH t AS (SELECT 1) SELECT * FROM (WITH u AS (SELECT * FROM t) SELECT * FROM u)", set()),
        ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r, a) SELECT * FROM r", {"a"}),
        ("FROM a |> WHERE i > 1 |> JOIN b USING (i)", {"a", "b"}),
        ("SELECT * FROM catalog.db.a, parquet.`x`, range(3), IDENTIFIER('b'), VALUES (1)", {"b"}),
        ("SELECT * FROM explode((SELECT x FROM a))", {"a"}),
        ("EXPLAIN EXTENDED SELECT * FROM a", {"a"}),
        ("DESCRIBE QUERY SELECT * FROM a", {"a"}),
        ("DESCRIBE a", {"a"}),
        ("SHOW COLUMNS IN a", {"a"}),
        ("CREATE TEMPORARY VIEW v AS SELECT * FROM a", {"a"}),
        ("SELECT 1", set()),
        ("SELEKT * FROM a", set()),
        ("EXECUTE IMMEDIATE 'SELECT * FROM a'", None),
        ("SHOW TABLES", None),
    ],
)
def test_sparks_parser_finds_what_a_query_reads_from(
    spark: SparkSession, query: str, names: set[str] | None
) -> None:
    assert read_by(spark, query).names == names


def test_a_statement_whose_names_are_hidden_gets_all_that_it_may_mean(spark: SparkSession) -> None:
    assert streams_in(read_by(spark, "EXECUTE IMMEDIATE 'SELECT * FROM ORDERS'"), STREAMS) == ["ORDERS"]
    assert streams_in(read_by(spark, "SHOW VIEWS"), STREAMS) == STREAMS
