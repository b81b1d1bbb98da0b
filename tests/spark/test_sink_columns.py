"""What the sink takes from a DataFrame, as Arrow arrays; no Spark session and no server."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType, _parse_datatype_json_string

from headrace.spark.failure import DataSourceError, in_one_line
from headrace.spark.writing.message_ids import MessageIds
from headrace.spark.writing.messages import HEADERS, messages_of
from headrace.spark.writing.sink_columns import find_columns


def schema(**columns: Any) -> StructType:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()
    ]
    parsed = _parse_datatype_json_string(__import__("json").dumps({"type": "struct", "fields": fields}))
    assert isinstance(parsed, StructType)
    return parsed


@pytest.mark.parametrize(
    ("columns", "subject", "told"),
    [
        ({"subject": "string"}, "", "the sink needs a column `data`"),
        ({"data": "binary"}, "", "the sink needs subjects; add a column `subject`"),
        ({"data": "integer"}, "a", "the column `data` is int, not binary or string; cast it"),
        ({"data": "binary", "subject": "binary"}, "", "the column `subject` is binary, not string"),
        ({"data": "binary", "headerz": "string"}, "a", "the sink cannot use the column `headerz`"),
        ({"data": "binary", "headers": "string"}, "a", "the column `headers` is string; it must be map"),
    ],
)
def test_wrong_columns_are_told(columns: dict[str, str], subject: str, told: str) -> None:
    with pytest.raises(DataSourceError) as raised:
        find_columns(schema(**columns), subject)
    assert told in in_one_line(raised.value)


def test_columns_of_a_read_may_stay() -> None:
    found = find_columns(schema(subject="string", data="binary", stream="string", seq="long"), "")
    assert (found.data, found.subject, found.headers, found.message_id) == (1, 0, -1, -1)


def test_the_option_wins_over_the_column() -> None:
    assert find_columns(schema(subject="string", data="binary"), "all.here").subject == -1


def messages(batch: pa.RecordBatch, subject: str = "") -> Any:
    kinds = {"string": "string", "binary": "binary"}
    plain = {field.name: kinds.get(str(field.type)) for field in batch.schema}
    headers = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
    columns = find_columns(schema(**{name: kind or headers for name, kind in plain.items()}), subject)
    return messages_of(batch, columns, subject)


def test_text_and_null_payloads_become_bytes() -> None:
    found = messages(pa.record_batch({"data": pa.array(["a", None, "é"])}), "s")
    assert found.data.to_pylist() == [b"a", b"", "é".encode()]
    assert found.subjects == "s"


@pytest.mark.parametrize("name", ["subject", "msgId"])
def test_a_null_where_there_must_be_a_value_is_reported(name: str) -> None:
    columns = {"data": pa.array([b"", b""]), "subject": pa.array(["a", "b"]), "msgId": pa.array(["1", "2"])}
    columns[name] = pa.array(["x", None])
    with pytest.raises(DataSourceError, match=f"the column `{name}` is NULL in row 1"):
        messages(pa.record_batch(columns))


def test_an_empty_message_id_is_reported() -> None:
    columns = {"data": pa.array([b"", b""]), "msgId": pa.array(["1", ""])}
    with pytest.raises(DataSourceError, match="the column `msgId` is empty in row 1"):
        messages(pa.record_batch(columns), "s")


def test_headers_may_be_a_map_or_pairs_or_null() -> None:
    pairs = pa.array([[{"key": "A", "value": "1"}], None, []], HEADERS)
    as_map = pa.array([[("A", "1")], None, []], pa.map_(pa.string(), pa.string()))
    for column in pairs, as_map, as_map.slice(0, 3):
        found = messages(pa.record_batch({"data": pa.array([b"", b"", b""]), "headers": column}), "s")
        assert found.headers.to_pylist() == [[{"key": "A", "value": "1"}], [], []]
        assert found.headers.type == HEADERS


def test_a_slice_of_headers_keeps_its_rows() -> None:
    as_map = pa.array(
        [[("A", "1")], [("B", "2"), ("C", "3")], [("D", "4")]], pa.map_(pa.string(), pa.string())
    )
    batch = pa.record_batch({"data": pa.array([b"", b"", b""]), "headers": as_map}).slice(1, 1)
    found = messages(batch, "s")
    assert [[pair["key"] for pair in row] for row in found.headers.to_pylist()] == [["B", "C"]]


def test_no_headers_at_all_cost_nothing() -> None:
    batch = pa.record_batch({"data": pa.array([b""]), "headers": pa.array([[]], HEADERS)})
    assert messages(batch, "s").headers is None


def test_what_a_copied_message_once_asked_for_is_left_behind() -> None:
    instructions = ["Nats-Msg-Id", "Nats-Expected-Stream", "Nats-Batch-Id"]
    pairs = [{"key": key, "value": "1"} for key in instructions]
    headers = pa.array([[*pairs, {"key": "A", "value": "2"}]], HEADERS)
    found = messages(pa.record_batch({"data": pa.array([b""]), "headers": headers}), "s")
    assert found.headers.to_pylist() == [[{"key": "A", "value": "2"}]]


def test_ids_count_through_the_batches_of_a_partition() -> None:
    ids = MessageIds("query:7:0")
    assert ids.of_places(2).to_pylist() == ["query:7:0:0", "query:7:0:1"]
    assert ids.of_places(1).to_pylist() == ["query:7:0:2"]
