"""Each kind of change of a schema, in a table of each format: older and newer rows keep their values."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.errors import UsageError
from headrace.spark.payload.ddl import parse_ddl
from headrace.spark.table.description import Description
from headrace.spark.table.interface import Settings
from headrace.spark.table.preparing import prepare
from headrace.spark.table.schemas import conform
from tests.spark.table.formats import append, read_elsewhere

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(400)

FORMATS = ("delta", "iceberg", "parquet")
BIG = 2**63 - 1
NINES = "9" * 36 + ".99"
NOON = datetime(2026, 11, 16, 12, 0, 0, 123456, UTC)

# What the column is, what it becomes, a value before, and a value that only fits after.
EVERYWHERE = [
    ("TINYINT", "SMALLINT", -128, 32767),
    ("TINYINT", "INT", 127, -(2**31)),
    ("TINYINT", "BIGINT", 1, BIG),
    ("SMALLINT", "INT", 32767, 2**31 - 1),
    ("SMALLINT", "BIGINT", -32768, -BIG - 1),
    ("INT", "BIGINT", 2**31 - 1, 2**53 + 1),
    ("FLOAT", "DOUBLE", 0.1, 1e300),
    ("DECIMAL(4, 2)", "DECIMAL(9, 2)", Decimal("99.99"), Decimal("1234567.89")),
    ("DECIMAL(9, 2)", "DECIMAL(12, 2)", Decimal("-1234567.89"), Decimal("1234567890.12")),
    ("DECIMAL(18, 2)", "DECIMAL(38, 2)", Decimal("1234567890123456.78"), Decimal(NINES)),
    ("DECIMAL(20, 2)", "DECIMAL(30, 2)", Decimal("123456789012345678.90"), Decimal(NINES[-24:])),
    ("STRUCT<x: INT>", "STRUCT<x: BIGINT, y: STRING>", {"x": 1}, {"x": BIG, "y": "y"}),
    ("ARRAY<INT>", "ARRAY<BIGINT>", [1, None], [BIG]),
    (
        "ARRAY<STRUCT<x: INT>>",
        "ARRAY<STRUCT<x: INT, d: DATE>>",
        [{"x": 1}],
        [{"x": 2, "d": date(2026, 1, 1)}],
    ),
    ("MAP<STRING, INT>", "MAP<STRING, BIGINT>", {"k": 1}, {"k": BIG}),
    ("MAP<STRING, STRUCT<x: FLOAT>>", "MAP<STRING, STRUCT<x: DOUBLE>>", {"k": {"x": 0.5}}, {"k": {"x": 0.1}}),
    ("BIGINT", "INT", BIG, 1),
    ("DOUBLE", "FLOAT", 1e300, 0.5),
    ("DECIMAL(12, 2)", "DECIMAL(10, 2)", Decimal("1234567890.12"), Decimal("1.50")),
    ("STRING NOT NULL", "STRING", "a", None),
    ("INT", "", 7, None),
    ("STRUCT<x: ARRAY<MAP<STRING, INT>>>", "", {"x": [{"k": 7}]}, None),
    *(
        ("", kind, None, value)
        for kind, value in {
            "BOOLEAN": True,
            "BIGINT": 2**53 + 1,
            "DECIMAL(38, 9)": Decimal("12345678901234567890.123456789"),
            "STRING": "ü",
            "BINARY": b"\x00\xff",
            "DATE": date(1, 1, 1),
            "TIMESTAMP": NOON,
            "TIMESTAMP_NTZ": NOON.replace(tzinfo=None),
            "STRUCT<a: ARRAY<BIGINT>, m: MAP<STRING, STRUCT<t: TIMESTAMP>>>": {
                "a": [BIG, None],
                "m": {"k": {"t": NOON}},
            },
        }.items()
    ),
]
NOT_IN_ICEBERG = [
    ("TINYINT", "DOUBLE", -128, 0.1),
    ("SMALLINT", "DOUBLE", 32767, 0.1),
    ("INT", "DOUBLE", 2**31 - 1, 0.1),
    ("TINYINT", "DECIMAL(10, 0)", 1, Decimal("1234567890")),
    ("INT", "DECIMAL(12, 2)", -(2**31), Decimal("1234567890.12")),
    ("BIGINT", "DECIMAL(20, 0)", BIG, Decimal("12345678901234567890")),
    ("DECIMAL(10, 2)", "DECIMAL(12, 4)", Decimal("12345678.90"), Decimal("12345678.9012")),
]


def schema_of(kinds: list[str]) -> Any:
    text = ", ".join(f"c{number} {kind}" for number, kind in enumerate(kinds) if kind)
    return parse_ddl(f"id BIGINT, {text}")


def plain(value: Any) -> Any:
    """As all programs can say it: maps may be lists of pairs, and times have a zone or none."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        pairs = value and all(
            isinstance(item, tuple) or (isinstance(item, dict) and set(item) == {"key", "value"})
            for item in value
        )
        if pairs:
            return plain(dict(item if isinstance(item, tuple) else item.values() for item in value))
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, (float, Decimal)):
        return float(value) if isinstance(value, float) else value.normalize()
    return bytes(value) if isinstance(value, bytearray) else value


def same(found: Any, wanted: Any, kind: str) -> bool:
    if "FLOAT" in kind and isinstance(wanted, float) and isinstance(found, float):
        return found == pytest.approx(wanted)
    if isinstance(wanted, Decimal) and isinstance(found, (int, float)):
        return False
    if isinstance(wanted, int) and isinstance(found, Decimal):
        wanted = Decimal(wanted)
    return bool(plain(found) == plain(wanted))


@pytest.mark.parametrize("form", FORMATS)
def test_every_change_keeps_older_and_newer_values(spark: SparkSession, tmp_path: Path, form: str) -> None:
    changes = EVERYWHERE + ([] if form == "iceberg" else NOT_IN_ICEBERG)
    before, after = schema_of([old for old, *_ in changes]), schema_of([new for _, new, *_ in changes])
    directory, about = str(tmp_path / "table"), Description(form, "a test", streams=("S",))
    olds = {f"c{number}": change[2] for number, change in enumerate(changes) if change[0]}
    news = {f"c{number}": change[3] for number, change in enumerate(changes) if change[1]}
    empty = {f"c{number}": "" for number, change in enumerate(changes) if change[0] == "STRING NOT NULL"}

    def rows(schema: Any, *values: dict[str, Any]) -> Any:
        given = [tuple(value.get(name) for name in schema.names) for value in values]
        return conform(spark.createDataFrame(given, schema), table.schema())

    table = prepare(spark, directory, about, before, Settings())
    append(table, 0, rows(before, {"id": 1, **olds}, {"id": 2, **empty}), 0, 2)
    table = prepare(spark, directory, about, after, Settings())
    append(table, 1, rows(after, {"id": 3, **news}, {"id": 4}), 2, 4)
    for _ in range(2):
        programs = {"Spark": [row.asDict(recursive=True) for row in table.read(spark).collect()]}
        if form != "parquet":  # others read its files without the columns of the table
            programs.update(read_elsewhere(table))
        for program, found in programs.items():
            by_id = {row["id"]: row for row in found}
            assert sorted(by_id) == [1, 2, 3, 4], program
            for number, (old, new, was, became) in enumerate(changes):
                name, change = f"c{number}", f"{program}: {old} -> {new}"
                assert same(by_id[1][name], was, old + new), f"{change}: {by_id[1][name]!r}"
                assert same(by_id[3][name], became, old + new), f"{change}: {by_id[3][name]!r}"
                # pyiceberg takes null for an empty list if the list has structs.
                nothing = (None, []) if program == "pyiceberg" else (None,)
                assert by_id[2][name] in (*nothing, ""), change
                assert by_id[4][name] in nothing, change
        append(table, 2, rows(after), 4, 4)
        table.compact()


@pytest.mark.parametrize("form", FORMATS)
def test_a_change_that_is_refused_changes_nothing(spark: SparkSession, tmp_path: Path, form: str) -> None:
    refused = ["STRING", "DOUBLE", *(new for _, new, *_ in NOT_IN_ICEBERG if form == "iceberg")]
    olds = ["INT", "BIGINT", *(old for old, *_ in NOT_IN_ICEBERG if form == "iceberg")]
    directory, about = str(tmp_path / "table"), Description(form, "a test", streams=("S",))
    table = prepare(spark, directory, about, schema_of(olds), Settings())
    schema, version = table.schema(), table.version()
    for number, new in enumerate(refused):
        wanted = [*olds[:number], new, *olds[number + 1 :]]
        with pytest.raises(UsageError):
            prepare(spark, directory, about, schema_of(wanted), Settings())
        assert (table.schema(), table.version()) == (schema, version), new
