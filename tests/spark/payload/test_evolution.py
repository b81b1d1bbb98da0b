"""What a table's schema may become."""

from __future__ import annotations

import pytest

from headrace.errors import UsageError
from headrace.spark.payload.ddl import ddl, parse_ddl
from headrace.spark.payload.evolution import evolved

ALLOWED = [
    ("a INT", "a INT, b STRING", "a INT, b STRING"),
    ("a INT, b STRING", "a INT", "a INT, b STRING"),
    ("a INT NOT NULL, b STRING", "b STRING", "a INT, b STRING"),
    ("a INT, b STRING", "c DATE, b STRING, a INT", "a INT, b STRING, c DATE"),
    ("a INT NOT NULL", "a INT", "a INT"),
    ("a INT", "a INT NOT NULL", "a INT"),
    ("a INT", "a INT, b INT NOT NULL", "a INT, b INT"),
    ("a TINYINT", "a SMALLINT", "a SMALLINT"),
    ("a SMALLINT", "a INT", "a INT"),
    ("a INT", "a BIGINT", "a BIGINT"),
    ("a BIGINT", "a INT", "a BIGINT"),
    ("a FLOAT", "a DOUBLE", "a DOUBLE"),
    ("a DECIMAL(10, 2)", "a DECIMAL(12, 2)", "a DECIMAL(12, 2)"),
    ("a DECIMAL(12, 2)", "a DECIMAL(10, 2)", "a DECIMAL(12, 2)"),
    ("r STRUCT<x: INT>", "r STRUCT<y: INT, x: BIGINT>", "r STRUCT<x: BIGINT, y: INT>"),
    ("r ARRAY<STRUCT<x: INT>>", "r ARRAY<STRUCT<z: DATE>>", "r ARRAY<STRUCT<x: INT, z: DATE>>"),
    ("r MAP<STRING, INT>", "r MAP<STRING, BIGINT>", "r MAP<STRING, BIGINT>"),
]
REFUSED = [
    ("a INT", "a STRING", "a cannot change from INT to STRING"),
    ("a STRING", "a INT", "a cannot change from STRING to INT"),
    ("a BIGINT", "a DOUBLE", "a cannot change from BIGINT to DOUBLE"),
    ("a INT", "a FLOAT", "a cannot change from INT to FLOAT"),
    ("a TIMESTAMP", "a DATE", "a cannot change from TIMESTAMP to DATE"),
    ("a INT", "A INT", "a is now written A"),
    ("a DECIMAL(10, 2)", "a DECIMAL(10, 3)", "a cannot change from DECIMAL(10, 2) to DECIMAL(10, 3)"),
    ("r STRUCT<x: INT>", "r STRUCT<x: STRING>", "r.x cannot change from INT to STRING"),
    ("r ARRAY<INT>", "r ARRAY<DATE>", "r.element cannot change from INT to DATE"),
    ("r MAP<STRING, INT>", "r MAP<INT, INT>", "r.key cannot change from STRING to INT"),
    ("r STRUCT<x: INT>", "r ARRAY<INT>", "r cannot change from STRUCT<x: INT> to ARRAY<INT>"),
]
NOT_IN_ICEBERG = [
    ("a INT", "a DOUBLE"),
    ("a INT", "a DECIMAL(12, 2)"),
    ("a BIGINT", "a DECIMAL(20, 0)"),
    ("a DECIMAL(10, 2)", "a DECIMAL(12, 4)"),
]


@pytest.mark.parametrize("format_name", ["delta", "iceberg", "parquet"])
@pytest.mark.parametrize(("old", "new", "result"), ALLOWED)
def test_a_table_grows_with_its_messages(old: str, new: str, result: str, format_name: str) -> None:
    assert ddl(evolved(parse_ddl(old), parse_ddl(new), format_name)) == result


@pytest.mark.parametrize(("old", "new", "message"), REFUSED)
def test_a_change_that_would_break_the_table_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        evolved(parse_ddl(old), parse_ddl(new))
    assert refused.value.message == message


@pytest.mark.parametrize(("old", "new"), NOT_IN_ICEBERG)
def test_a_change_that_iceberg_does_not_know_is_refused_there(old: str, new: str) -> None:
    assert ddl(evolved(parse_ddl(old), parse_ddl(new), "delta")) == new
    with pytest.raises(UsageError, match=r"Iceberg cannot change a from"):
        evolved(parse_ddl(old), parse_ddl(new), "iceberg")
