"""From messages to rows, for each format: every message is a row, a dead letter or a deletion."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from headrace.spark.payload.ddl import ddl, parse_ddl
from headrace.spark.payload.decode import (
    DEAD_LETTER_COLUMNS,
    DELETED,
    PROBLEM,
    dead_letters,
    decode,
    few_dead_letters,
    good_rows,
)
from headrace.spark.payload.decoding import Decoding
from headrace.spark.payload.protobuf_schema import document_of
from headrace.spark.payload.schema import read_schema
from headrace.spark.table.batch_files import settings_of
from tests.spark.payload.descriptors import ORDERS_DDL, descriptor_set
from tests.spark.payload.test_binary_rows import AVRO_ORDER, avro_bytes, full_order
from tests.spark.payload.test_json_rows import NOON, ROW, messages
from tests.spark.payload.test_schemas import AVRO_DDL, AVRO_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def reasons(decoded: DataFrame, decoding: Decoding) -> dict[int, str]:
    return {row["seq"]: row["reason"] for row in dead_letters(decoded, decoding, 1).collect()}


def test_a_payload_is_parsed_once(spark: SparkSession) -> None:
    """Good rows need the values and the decision; Spark must not compute from_json for each of them."""
    decoding = Decoding("json", parse_ddl("a INT, b TIMESTAMP, c DECIMAL(5, 2), d STRING"))
    decoded = decode(messages(spark, [b"{}"]), decoding)
    for rows in (good_rows(decoded, decoding), dead_letters(decoded, decoding, 1)):
        plan = rows._jdf.queryExecution().executedPlan().toString()
        assert plan.count("from_json(") == 1


@pytest.mark.parametrize("large", ["false", "true"])
def test_few_dead_letters_are_like_many(spark: SparkSession, large: str) -> None:
    """Also if they are gone when they are read again, and with strings that may be large."""
    decoding = Decoding("json", parse_ddl("id BIGINT"))
    with settings_of(spark, {"spark.sql.execution.arrow.useLargeVarTypes": large}):
        for payloads in ([b"{", b'{"id": 1.5}', b'{"id": 1}'], [b'{"id": 1}']):
            decoded = decode(messages(spark, payloads), decoding)
            few, many = (make(decoded, decoding, 7) for make in (few_dead_letters, dead_letters))
            assert few.schema == many.schema == DEAD_LETTER_COLUMNS
            assert sorted(few.collect()) == sorted(many.collect())


def test_rows_have_metadata_subject_and_payload_in_this_order(spark: SparkSession) -> None:
    decoding = Decoding(
        "json", parse_ddl("id BIGINT NOT NULL"), subject="orders.{country}.*", metadata=("seq", "timestamp")
    ).checked()
    decoded = decode(messages(spark, [b'{"id": 1}', b'{"id": 1.5}']), decoding)
    good = good_rows(decoded, decoding, {"date": F.to_date("timestamp")})
    assert good.columns == [*decoding.columns.names, "date"]
    assert [tuple(row) for row in good.collect()] == [(1, NOON, "DE", 1, NOON.date())]
    letters = dead_letters(decoded, decoding, 7)
    assert letters.schema == DEAD_LETTER_COLUMNS
    assert [tuple(row) for row in letters.collect()] == [
        ("ORDERS", 2, "orders.DE.new", NOON, [], b'{"id": 1.5}', "id: 1.5 does not fit BIGINT", 7)
    ]


def test_a_subject_of_another_form_is_a_bad_row(spark: SparkSession) -> None:
    decoding = Decoding("raw", parse_ddl("data BINARY"), subject="orders.{country}").checked()
    decoded = decode(messages(spark, [b"x"]), decoding)
    assert reasons(decoded, decoding) == {1: "the subject does not match the pattern orders.{country}"}


def test_text_must_be_utf8_and_raw_may_be_anything(spark: SparkSession) -> None:
    rows = messages(spark, [b"a", b"\xff", b"", "é".encode()])
    text = read_schema(None, "text")
    decoded = decode(rows, text)
    assert [row["data"] for row in good_rows(decoded, text).collect()] == ["a", "", "é"]
    assert reasons(decoded, text) == {2: "the payload is not UTF-8 at byte 1"}
    raw = read_schema(None, "raw")
    assert [bytes(row["data"]) for row in good_rows(decode(rows, raw), raw).collect()] == [
        b"a",
        b"\xff",
        b"",
        "é".encode(),
    ]


CSV = "i BIGINT NOT NULL, s STRING, e DECIMAL(5, 2), d DOUBLE, o BOOLEAN, y DATE, t TIMESTAMP, h SMALLINT"
LONG_NUMBER = "9" * 5000
CSV_ROWS: dict[bytes, tuple[object, ...] | str] = {
    b'9007199254740993,"a,""b""\nc",1.50,1e3,true,2999-12-31,2026-01-01T00:00:00+01:00,-5': (
        *(9007199254740993, 'a,"b"\nc', "1.50", "1000.0", "true", "2999-12-31", "2025-12-31 23:00:00", "-5"),
    ),
    b"1,,,,,,,\r\n": (1, None, None, None, None, None, None, None),
    b'1,"",,,,,,': (1, "", None, None, None, None, None, None),
    b"": "the payload is empty",
    b"1,2": "the record has 2 fields, not 8",
    b"1,,,,,,,,": "the record has 9 fields, not 8",
    b"1,,,,,,,\n2,,,,,,,": "the payload has 2 records, not 1",
    b'1,"x,,,,,,': "the record ends within quotes",
    b",,,,,,,": "i is empty, but the schema says NOT NULL",
    b"1.0,,,,,,,": "i: '1.0' does not fit BIGINT",
    f"{LONG_NUMBER},,,,,,,".encode(): f"i: '{LONG_NUMBER[:40]}' does not fit BIGINT",
    b"1,,1.005,,,,,": "e: '1.005' does not fit DECIMAL(5, 2)",
    b'1,,"1,5",,,,,': "e: '1,5' does not fit DECIMAL(5, 2)",
    b"1,,,1e400,,,,": "d: '1e400' does not fit DOUBLE",
    b"1,,,NaN,,,,": "d: 'NaN' does not fit DOUBLE",
    b"1,,,,yes,,,": "o: 'yes' does not fit BOOLEAN",
    b"1,,,,,2026-02-30,,": "y: '2026-02-30' does not fit DATE",
    b"1,,,,,,10:00,": "t: '10:00' does not fit TIMESTAMP",
    b"1,,,,,,2026-01-01T00:00:00+19:00,": (
        "t: '2026-01-01T00:00:00+19:00' does not fit TIMESTAMP: a time zone is at most 18:00 from UTC"
    ),
    b"1,,,,,,,40000": "h: '40000' does not fit SMALLINT",
    b"1,\xff,,,,,,": "the payload is not UTF-8 at byte 3",
}


def test_each_csv_record_is_kept_exactly_or_refused(spark: SparkSession) -> None:
    decoding = Decoding("csv", parse_ddl(CSV), metadata=("seq",)).checked()
    decoded = decode(messages(spark, list(CSV_ROWS)), decoding)
    columns = [F.col(name).cast("string").alias(name) for name in decoding.schema.names[1:]]
    found: dict[int, object] = dict(reasons(decoded, decoding))
    for row in good_rows(decoded, decoding).select("seq", "i", *columns).collect():
        assert row["seq"] not in found
        found[row["seq"]] = tuple(row)[1:]
    assert [found[seq] for seq in range(1, len(CSV_ROWS) + 1)] == list(CSV_ROWS.values())


def test_csv_text_that_is_not_base64_is_a_bad_row(spark: SparkSession) -> None:
    decoding = Decoding("csv", parse_ddl("x BINARY"), metadata=("seq",)).checked()
    decoded = decode(messages(spark, ["é".encode()]), decoding)
    assert reasons(decoded, decoding) == {1: "x: 'é' does not fit BINARY"}


def test_avro_rows(spark: SparkSession) -> None:
    decoding = Decoding("avro", parse_ddl(AVRO_DDL), json.dumps(AVRO_SCHEMA), metadata=("seq",))
    too_long = avro_bytes({**AVRO_ORDER, "price": Decimal("99999999.99")})
    rows = messages(spark, [avro_bytes(AVRO_ORDER), b"", b"\xff" * 20, too_long])
    spark.conf.set(
        "spark.sql.session.timeZone", "America/New_York"
    )  # that of a session is not ours to choose
    try:
        decoded = decode(rows, decoding)
        good = good_rows(decoded, decoding).orderBy("seq").collect()
        letters = reasons(decoded, decoding)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert [row["seq"] for row in good] == [1, 4]
    first = good[0].asDict(recursive=True)
    assert (first["id"], first["price"], first["day"]) == (
        *(2**63 - 1, Decimal("12345678.90"), datetime.date(2999, 12, 31)),
    )
    assert (first["at"], first["tags"], first["counts"], first["who"]) == (
        *(NOON.replace(microsecond=123456), ["a", None], {"x": -(2**63)}, {"f": 1.5}),
    )
    assert {seq: reason[:39] for seq, reason in letters.items()} == dict.fromkeys(
        (2, 3), "the payload is not Avro of this schema:"
    )


def test_protobuf_rows(spark: SparkSession) -> None:
    decoding = Decoding(
        "protobuf", parse_ddl(ORDERS_DDL), document_of(descriptor_set()), "shop.Order", metadata=("seq",)
    )
    decoded = decode(messages(spark, [full_order().SerializeToString(), b"\xff"]), decoding)
    (row,) = good_rows(decoded, decoding).collect()
    assert (row["total"], row["took"], row["kind"]) == (2**64 - 1, Decimal("-1.500000001"), "OLD")
    assert row["at"] == datetime.datetime(2999, 12, 31, 23, 59, 59, 123456)
    assert (row["counts"], row["by_id"][5]["sku"], row["items"][0]["n"]) == ({"c": 2**53 + 1}, "y", 2)
    assert list(reasons(decoded, decoding)) == [2]


def test_two_hundred_columns(spark: SparkSession) -> None:
    names = [f"c{number}" for number in range(200)]
    schema = parse_ddl(", ".join(f"{name} BIGINT" for name in names))
    decoding = Decoding("json", schema, metadata=("seq",)).checked()
    whole = {name: 2**53 + 1 + number for number, name in enumerate(names)}
    decoded = decode(messages(spark, [json.dumps(whole).encode(), b"{}"]), decoding)
    first, second = good_rows(decoded, decoding).drop("seq").collect()
    assert first.asDict() == whole
    assert set(second) == {None}


KV_ROWS = [
    (1, "a.b", [], b'{"v": 1}'),
    (2, "c", [], b'{"v": 2}'),
    (3, "a.b", [], b'{"v": 3}'),
    (4, "c", [("KV-Operation", "DEL")], b""),
    (5, "d", [], b""),
    (6, "e", [("KV-Operation", "PURGE"), ("Nats-Rollup", "sub")], b""),
    (7, "e", [], b'{"v": 7}'),
    (8, "f", [("KV-Operation", "PUT")], b'{"v": "x"}'),
    (9, "g", [("Nats-Marker-Reason", "MaxAge")], b""),
]


def kv_messages(spark: SparkSession) -> DataFrame:
    rows = [("KV_B", seq, f"$KV.B.{key}", NOON, headers, data) for seq, key, headers, data in KV_ROWS]
    return spark.createDataFrame(rows, ROW)


def set_and_deleted(decoded: DataFrame) -> tuple[list[int], list[int]]:
    """The sequences of messages that set a key, and of those that delete one."""
    rows = decoded.where(F.col(PROBLEM).isNull()).select("seq", DELETED).orderBy("seq").collect()
    return [row["seq"] for row in rows if not row[DELETED]], [row["seq"] for row in rows if row[DELETED]]


def test_a_message_of_a_key_sets_or_deletes_it(spark: SparkSession) -> None:
    decoding = Decoding(
        "json", parse_ddl("v BIGINT NOT NULL"), subject="$KV.B.{key...}", metadata=("seq",), key=("key",)
    ).checked()
    decoded = decode(kv_messages(spark), decoding)
    assert set_and_deleted(decoded) == ([1, 2, 3, 7], [4, 5, 6, 9])
    good = good_rows(decoded, decoding)
    assert sorted(map(tuple, good.collect())) == [(1, "a.b", 1), (2, "c", 2), (3, "a.b", 3), (7, "e", 7)]
    assert reasons(decoded, decoding) == {8: 'v: "x" does not fit BIGINT'}


def test_a_deletion_that_does_not_say_of_what_is_a_bad_row(spark: SparkSession) -> None:
    decoding = Decoding("json", parse_ddl("id BIGINT"), metadata=("seq",), key=("id",)).checked()
    decoded = decode(messages(spark, [b"", b"{}", b'{"id": 1}']), decoding)
    assert reasons(decoded, decoding) == {1: "the key id is missing", 2: "the key id is missing"}
    assert set_and_deleted(decoded) == ([3], [])


def test_an_empty_protobuf_message_does_not_delete_the_key_zero(spark: SparkSession) -> None:
    decoding = Decoding(
        "protobuf",
        parse_ddl(ORDERS_DDL),
        document_of(descriptor_set()),
        "shop.Order",
        metadata=("seq",),
        key=("id",),
    ).checked()
    decoded = decode(messages(spark, [b"", b"\x08\x05"]), decoding)
    assert reasons(decoded, decoding) == {1: "the key id is missing"}
    assert set_and_deleted(decoded) == ([2], [])
    assert [row["id"] for row in good_rows(decoded, decoding).collect()] == [5]


def test_without_a_key_an_empty_payload_is_no_deletion(spark: SparkSession) -> None:
    decoding = replace(read_schema("v BIGINT"), metadata=("seq",)).checked()
    decoded = decode(messages(spark, [b""]), decoding)
    assert reasons(decoded, decoding) == {1: "the payload is empty"}
    assert ddl(decoding.columns) == "seq BIGINT NOT NULL, v BIGINT"
