"""JSON becomes typed columns exactly, or a dead letter that says why."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from headrace.spark.payload.ddl import parse_ddl
from headrace.spark.payload.decode import dead_letters, decode, good_rows
from headrace.spark.payload.decoding import Decoding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

ROW = (
    "stream string, seq long, subject string, timestamp timestamp, "
    "headers array<struct<key:string,value:string>>, data binary"
)
NOON = datetime.datetime(2026, 11, 16, 12, 0)

ALL_TYPES = (
    "b TINYINT, h SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, e DECIMAL(10, 2), e38 DECIMAL(38, 18), "
    "s STRING, o BOOLEAN, x BINARY, y DATE, t TIMESTAMP, n TIMESTAMP_NTZ, a ARRAY<INT>, m MAP<STRING, INT>, "
    "r STRUCT<i: INT NOT NULL, e: DECIMAL(5, 1)>, ae ARRAY<DECIMAL(5, 1)>, me MAP<STRING, TIMESTAMP>"
)


def messages(spark: SparkSession, payloads: list[bytes], subject: str = "orders.DE.new") -> DataFrame:
    rows = [("ORDERS", seq, subject, NOON, [], data) for seq, data in enumerate(payloads, 1)]
    return spark.createDataFrame(rows, ROW)


def decoded_json(
    spark: SparkSession, schema: str, payloads: list[bytes], zone: str = "UTC"
) -> dict[int, dict[str, str] | str]:
    """Of each payload its values as text, or the reason. The zone is Spark's while it decodes."""
    decoding = Decoding("json", parse_ddl(schema), metadata=("seq",)).checked()
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        decoded = decode(messages(spark, payloads), decoding)
        good = good_rows(decoded, decoding)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    columns = [F.col(name).cast("string").alias(name) for name in good.columns if name != "seq"]
    found: dict[int, dict[str, str] | str] = {}
    for row in good.select("seq", *columns).collect():
        found[row["seq"]] = _values(row)
    for row in dead_letters(decoded, decoding, 7).collect():
        assert row["batch"] == 7
        assert row["data"] == payloads[row["seq"] - 1]
        assert row["seq"] not in found
        found[row["seq"]] = row["reason"]
    assert sorted(found) == list(range(1, len(payloads) + 1)), "every message is in one of the two, once"
    return found


def _values(row: Row) -> dict[str, str]:
    return {name: value for name, value in row.asDict().items() if name != "seq" and value is not None}


GOOD: dict[bytes, dict[str, str]] = {
    b'{"s":"' + b"x" * 3_000_000 + b'"}': {"s": "x" * 3_000_000},
    b'{"z":[' + b"1," * 300_000 + b'1],"l":1}': {"l": "1"},
    b"{}": {},
    b' {"l":1} \n': {"l": "1"},
    b'{"l":9007199254740993,"unknown":[{"x":1}]}': {"l": "9007199254740993"},
    b'{"l":-9223372036854775808}': {"l": "-9223372036854775808"},
    b'{"l":1,"l":2}': {"l": "2"},
    b'{"b":-128,"h":32767,"i":2147483647}': {"b": "-128", "h": "32767", "i": "2147483647"},
    b'{"d":1e308,"f":1}': {"d": "1.0E308", "f": "1.0"},
    b'{"e":12345678.90}': {"e": "12345678.90"},
    b'{"e":"1.5000"}': {"e": "1.50"},
    b'{"e":-0}': {"e": "0.00"},
    b'{"e38":12345678901234567890.123456789012345678}': {"e38": "12345678901234567890.123456789012345678"},
    b'{"e":null,"t":null,"r":null}': {},
    b'{"s":"\\ud83d\\ude00 \\\\ud800 \\u0000"}': {"s": "\U0001f600 \\ud800 \0"},
    b'{"s":12345678901234567890}': {"s": "12345678901234567890"},
    b'{"s":true}': {"s": "true"},
    b'{"s":{"k":[1,"x"]}}': {"s": '{"k":[1,"x"]}'},
    b'{"s":"1.5","d":0.12345678901234567}': {"s": "1.5", "d": "0.12345678901234566"},
    b'{"s":"[WARN] 12345678901234567890"}': {"s": "[WARN] 12345678901234567890"},
    b'{"s":"[WARN]","z":"550e8400-e29b-41d4-a716-446655440000"}': {"s": "[WARN]"},
    b'{"s":"[WARN] \\"a\\\\b\\"\\n","d":0.12345678901234567}': {
        "s": '[WARN] "a\\b"\n',
        "d": "0.12345678901234566",
    },
    b'{"s":"{\\"at\\": 1e3}","d":1e3}': {"s": '{"at": 1e3}', "d": "1000.0"},
    b'{"s":"[' + b"\\\\" * 300_000 + b'1e5]"}': {"s": "[" + "\\" * 300_000 + "1e5]"},
    b'{"x":"aGk="}': {"x": "hi"},
    b'{"y":"2999-12-31"}': {"y": "2999-12-31"},
    b'{"y":"0001-01-01"}': {"y": "0001-01-01"},
    b'{"t":"2026-01-01T00:00:00+02:00"}': {"t": "2025-12-31 22:00:00"},
    b'{"t":"2026-01-01T00:00:00-18:00"}': {"t": "2026-01-01 18:00:00"},
    b'{"t":"2999-12-31T23:59:59.999999Z"}': {"t": "2999-12-31 23:59:59.999999"},
    b'{"t":"0001-01-01 00:00:00"}': {"t": "0001-01-01 00:00:00"},
    b'{"t":"2026-01-01T00:00:00.123456789Z"}': {"t": "2026-01-01 00:00:00.123456"},
    b'{"n":"2026-01-01T00:00:00.5"}': {"n": "2026-01-01 00:00:00.5"},
    b'{"a":[1,null,2]}': {"a": "[1, null, 2]"},
    b'{"m":{"k":1,"j":null}}': {"m": "{k -> 1, j -> null}"},
    b'{"r":{"i":1,"e":2.5},"ae":[1.5,null]}': {"r": "{1, 2.5}", "ae": "[1.5, null]"},
    b'{"me":{"k":"2026-01-01T00:00:00Z"}}': {"me": "{k -> 2026-01-01 00:00:00}"},
}

BAD: dict[bytes, str] = {
    b'{"z":' + b"[" * 1200 + b"]" * 1200 + b"}": "the payload is nested too deeply",
    b"": "the payload is empty",
    b" ": "the payload is empty",
    b"null": "the payload is null, not an object",
    b"[]": "the payload is an array, not an object",
    b'[{"l":1}]': "the payload is an array, not an object",
    b"1": "the payload is 1, not an object",
    b'"x"': 'the payload is "x", not an object',
    b"hello": "the payload is not JSON at character 1: Expecting value",
    b'{"l":1': "the payload is not JSON at character 7: Expecting ',' delimiter",
    b'{"l":1} x': "the payload is not JSON at character 9: Extra data",
    b'{"l":1}{"l":2}': "the payload is not JSON at character 8: Extra data",
    b'{"l":1},{"l":2}': "the payload is not JSON at character 8: Extra data",
    b"{'l':1}": "the payload is not JSON at character 2: Expecting property name enclosed in double quotes",
    b'\xef\xbb\xbf{"l":1}': "the payload starts with a byte order mark",
    b'{"s":"\xff"}': "the payload is not UTF-8 at byte 7",
    b'{"s":"\\ud800"}': 's: "\\ud800" does not fit STRING',
    b'{"d":NaN}': "the payload is not JSON: NaN is not a JSON number",
    b'{"d":"NaN"}': 'd: "NaN" does not fit DOUBLE',
    b'{"d":1e400}': "d: 1e400 does not fit DOUBLE",
    b'{"d":1e1000000}': "d: 1e1000000 does not fit DOUBLE",
    b'{"d":-1e99999999999999999999}': "d: -1e99999999999999999999 does not fit DOUBLE",
    b'{"f":1e39}': "f: 1e39 does not fit FLOAT",
    b'{"f":1e99999999999999999999}': "f: 1e99999999999999999999 does not fit FLOAT",
    b'{"d":1e-99999999999999999999,"l":"x"}': 'l: "x" does not fit BIGINT',
    b'{"l":9223372036854775808}': "l: 9223372036854775808 does not fit BIGINT",
    b'{"l":1.0}': "l: 1.0 does not fit BIGINT",
    b'{"l":"1"}': 'l: "1" does not fit BIGINT',
    b'{"l":true}': "l: true does not fit BIGINT",
    b'{"b":200}': "b: 200 does not fit TINYINT",
    b'{"h":40000}': "h: 40000 does not fit SMALLINT",
    b'{"e":1.005}': "e: 1.005 does not fit DECIMAL(10, 2)",
    b'{"e":123456789}': "e: 123456789 does not fit DECIMAL(10, 2)",
    b'{"e":"1,5"}': 'e: "1,5" does not fit DECIMAL(10, 2)',
    b'{"e":1e2}': "e: 1e2 does not fit DECIMAL(10, 2)",
    b'{"e":12.340000000000000001e0}': "e: 12.340000000000000001e0 does not fit DECIMAL(10, 2)",
    b'{"e":1.' + b"0" * 40 + b"1}": f"e: 1.{'0' * 38}… does not fit DECIMAL(10, 2)",
    b'{"e":1e20000000}': "e: 1e20000000 does not fit DECIMAL(10, 2)",
    b'{"e38":1.0000000000000000001}': "e38: 1.0000000000000000001 does not fit DECIMAL(38, 18)",
    b'{"e":true}': "e: true does not fit DECIMAL(10, 2)",
    b'{"o":"true"}': 'o: "true" does not fit BOOLEAN',
    b'{"x":"!!"}': 'x: "!!" does not fit BINARY',
    '{"x":"é"}'.encode(): 'x: "\\u00e9" does not fit BINARY',
    b'{"y":"2026-02-30"}': 'y: "2026-02-30" does not fit DATE',
    b'{"y":"2026-01-01T10:00:00Z"}': 'y: "2026-01-01T10:00:00Z" does not fit DATE',
    b'{"y":"0000-01-01"}': 'y: "0000-01-01" does not fit DATE',
    b'{"t":"10:00:00"}': 't: "10:00:00" does not fit TIMESTAMP',
    b'{"t":1700000000}': "t: 1700000000 does not fit TIMESTAMP",
    b'{"t":"0001-01-01T00:00:00+01:00"}': 't: "0001-01-01T00:00:00+01:00" does not fit TIMESTAMP',
    b'{"t":"2026-01-01T00:00:00+23:59"}': (
        't: "2026-01-01T00:00:00+23:59" does not fit TIMESTAMP: a time zone is at most 18:00 from UTC'
    ),
    b'{"t":"2026-01-01T00:00:00-18:01"}': (
        't: "2026-01-01T00:00:00-18:01" does not fit TIMESTAMP: a time zone is at most 18:00 from UTC'
    ),
    b'{"t":"2026-01-01T00:00:00Z\\n"}': 't: "2026-01-01T00:00:00Z\\n" does not fit TIMESTAMP',
    b'{"n":"2026-01-01T00:00:00Z"}': 'n: "2026-01-01T00:00:00Z" does not fit TIMESTAMP_NTZ',
    b'{"a":[1,"x"]}': 'a[1]: "x" does not fit INT',
    b'{"a":{}}': "a: an object does not fit ARRAY<INT>",
    b'{"m":{"k":1,"k":2}}': "m: the map has the key 'k' twice",
    b'{"r":{"e":2.5}}': "r.i is missing, but the schema says NOT NULL",
    b'{"r":{"i":null}}': "r.i is null, but the schema says NOT NULL",
    b'{"ae":[1.55]}': "ae[0]: 1.55 does not fit DECIMAL(5, 1)",
    b'{"me":{"k":"today"}}': "me['k']: \"today\" does not fit TIMESTAMP",
}


@pytest.mark.parametrize("zone", ["America/New_York"])
def test_each_json_value_is_kept_exactly_or_refused_with_its_field(spark: SparkSession, zone: str) -> None:
    payloads = [*GOOD, *BAD]
    expected = [*GOOD.values(), *BAD.values()]
    found = decoded_json(spark, ALL_TYPES, payloads, zone)
    wrong = {
        payload: (found[seq], wanted)
        for seq, (payload, wanted) in enumerate(zip(payloads, expected, strict=True), 1)
        if found[seq] != wanted
    }
    assert not wrong, "\n".join(f"{str(payload)[:200]}: {values}" for payload, values in wrong.items())
