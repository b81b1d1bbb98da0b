"""What the decoder of JSON accepts is exactly what the rules say; what is usual it accepts."""

from __future__ import annotations

import datetime
import itertools
import json
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow
import pytest

from benchmarks.spark.tables import SIX_FIELDS, json_payload
from headrace.client.outgoing import TextColumn
from headrace.spark.options import JSON_SCHEMA
from headrace.spark.payload.ddl import parse_ddl
from headrace.spark.payload.decoding import DECODED, Decoding
from headrace.spark.payload.json_rules import json_problem
from headrace.spark.reading.early import EarlyColumns, early_option
from headrace.spark.reading.json_decoder import JsonDecoder
from tests.spark.payload import flat_payloads
from tests.spark.payload.flat_payloads import SCHEMA, TYPES
from tests.spark.payload.json_model import EPOCH, expected

ORDER_SCHEMA = "id BIGINT NOT NULL, customer STRING, amount DECIMAL(10, 2), quantity INT, placed_at TIMESTAMP"


def decoded(payloads: Iterable[bytes | None], schema: str = SCHEMA) -> list[dict[str, Any] | None]:
    """Of each payload the row, or None if it was left to Spark."""
    batch = pyarrow.record_batch({"data": pyarrow.array(payloads, pyarrow.binary())})
    column = EarlyColumns(schema).added_to(batch).column(DECODED)
    column.validate(full=True)
    return list(column.to_pylist())


def as_model(row: dict[str, Any]) -> dict[str, Any]:
    """Without nulls, and times as microseconds."""
    found = {name: value for name, value in row.items() if value is not None}
    for name, value in found.items():
        if isinstance(value, datetime.datetime):
            moment = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
            found[name] = (moment - EPOCH) // datetime.timedelta(microseconds=1)
    return found


def check(payloads: list[bytes]) -> int:
    """How many were decoded. Raises AssertionError with those that must not be, or are something else."""
    schema = parse_ddl(SCHEMA)
    wrong: list[Any] = []
    rows = decoded(payloads)
    for payload, row in zip(payloads, rows, strict=True):
        if row is None:
            continue
        problem = json_problem(payload, schema)
        found, wanted = as_model(row), None if problem else expected(payload, TYPES)
        if found != wanted or any(_is_minus_zero(value) for value in found.values()):
            wrong.append((payload, found, problem or wanted))
    assert not wrong, "\n".join(map(str, wrong[:20]))
    return sum(row is not None for row in rows)


def _is_minus_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0 and math.copysign(1, value) < 0


def test_usual_payloads_are_decoded() -> None:
    assert all(decoded(map(json_payload, range(20_000)), SIX_FIELDS))
    order = b'{"id":7,"customer":"c-7","amount":12.50,"quantity":3,"placed_at":"2026-11-16T12:34:56.123456Z"}'
    noon = datetime.datetime(2026, 11, 16, 12, 34, 56, 123456, datetime.UTC)
    row = {"id": 7, "customer": "c-7", "amount": Decimal("12.50"), "quantity": 3, "placed_at": noon}
    assert decoded([order], ORDER_SCHEMA) == [row]


@pytest.mark.parametrize("name", list(flat_payloads.RIGHT))
def test_every_type_is_decoded(name: str) -> None:
    literals = flat_payloads.RIGHT[name]
    payloads = [f'{{"q":1,"{name}":{literal}}}'.encode() for literal in literals if name != "q"]
    assert check(payloads) == len(payloads)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"q":1}',
        b' {\n"q" :\t1 } \r\n',
        b'{"s":null,"q":1,"l":null}',
        b'{"q":1,"other":{"a":[1,{"b":"x\\n"}],"c":-1.5e3},"s":"x"}',
        b'{"q":1,"l":9223372036854775807,"i":-2147483648}',
        b'{"q":1,"s":"\\u00e9t\\u00e9 \\"\\\\ \\n"}',
        '{"q":1,"s":"日本 \U0001f600"}'.encode(),
        b'{"q":1,"d":0.12345678901234567,"f":0.1}',
        b'{"q":1,"w":"-12345678901234.5678"}',
    ],
)
def test_what_is_usual_is_decoded(payload: bytes) -> None:
    assert check([payload]) == 1


@pytest.mark.parametrize(
    "payload",
    [
        *(
            b"",
            b" ",
            b"null",
            b"[]",
            b"{",
            b"{}",
            b'{"q":null}',
            b'{"q":1,}',
            b'{"q":1}x',
            b'{"q":1}\0',
            b'{"q":1}{}',
        ),
        *(
            b'\xef\xbb\xbf{"q":1}',
            b'{"q":1,"s":"\xff"}',
            b'{"q":1,"s":"\xed\xa0\x80"}',
            b'{"q":1,"s":"\xc0\xaf"}',
        ),
        *(
            b'{"q":1,"q":2}',
            b'{"\\u0071":1,"q":1}',
            b'{"q":1,"s":"\\ud83d\\ude00"}',
            b'{"q":1,"s":7}',
            b'{"q":01}',
        ),
        *(
            b'{"q":1,"x":' + b"[" * 100 + b"]" * 100 + b"}",
            b'{"q":1,"l":9223372036854775808}',
            b'{"q":1,"d":-0.0}',
        ),
    ],
)
def test_what_is_unusual_is_left_to_spark(payload: bytes) -> None:
    assert decoded([payload]) == [None]


def test_no_payload_at_all_is_left_to_spark() -> None:
    assert decoded([None, b'{"q":1}', None])[::2] == [None, None]
    assert decoded([]) == []


def test_each_literal_is_decoded_as_the_rules_say() -> None:
    assert check(list(flat_payloads.each_literal())) > 200


def test_numbers_are_decoded_as_the_rules_say() -> None:
    assert check(list(flat_payloads.numbers(1, 40_000))) > 8000


def test_moments_are_decoded_as_the_rules_say() -> None:
    assert check(list(flat_payloads.moments(1, 30_000))) > 2000


def test_objects_are_decoded_as_the_rules_say() -> None:
    assert check(list(flat_payloads.objects(1, 30_000))) > 10_000


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_payloads_are_decoded_as_the_rules_say(seed: int) -> None:
    for make in (flat_payloads.numbers, flat_payloads.moments, flat_payloads.objects):
        check(list(make(seed, 100_000)))


def test_a_payload_ends_where_it_ends() -> None:
    """The next one follows without a gap, and would complete it."""
    literals = [literal for literals in flat_payloads.RIGHT.values() for literal in literals]
    whole = json.dumps({"other": 1, "list": [1, {"a": "x"}]})[:-1]
    payloads = [
        f'{whole},"q":1,"{name}":{value}}} '.encode() for name in "bhildfewzksoytn" for value in literals
    ]
    for payload in (payload for payload in payloads if decoded([payload]) != [None]):
        halves = [(payload[:place], payload[place:]) for place in range(1, len(payload) - 1)]
        assert not any(decoded(itertools.chain.from_iterable(halves))), payload


def test_each_batch_starts_with_nothing() -> None:
    columns = EarlyColumns(SCHEMA)
    for payload, row in ((b'{"q":1,"s":"x"}', {"q": 1, "s": "x"}), (b'{"q":2}', {"q": 2}), (b"x", None)):
        batch = pyarrow.record_batch({"data": pyarrow.array([payload] * 9, pyarrow.binary())})
        found = columns.added_to(batch).column(DECODED).to_pylist()
        assert [as_model(each) if each else None for each in found] == [row] * 9


def test_a_slice_of_a_column_is_decoded() -> None:
    data = pyarrow.array([b"x", b'{"q":1}', b'{"q":2}'], pyarrow.binary()).slice(1)
    found = EarlyColumns("q BIGINT").added_to(pyarrow.record_batch({"data": data}))
    assert found.column(DECODED).to_pylist() == [{"q": 1}, {"q": 2}]


@pytest.mark.parametrize(
    "columns",
    [[], [("a", "binary", True, 0, 0)], [("a", "decimal", True, 39, 0)], [("a", "decimal", True, 3, 4)]],
)
def test_columns_that_cannot_be_decoded_are_refused(columns: list[tuple[str, str, bool, int, int]]) -> None:
    with pytest.raises(ValueError, match=r"a schema has|there is no|not in tuple"):
        JsonDecoder(columns)


def test_offsets_outside_of_the_data_are_refused() -> None:
    offsets = pyarrow.array([0, 50], pyarrow.int32()).buffers()[1]
    with pytest.raises(ValueError, match="outside"):
        TextColumn(1, 0, None, offsets, b'{"q":1}')


def test_only_schemas_of_plain_json_are_decoded_early() -> None:
    assert early_option(Decoding("json", parse_ddl("id BIGINT NOT NULL"))) == {
        JSON_SCHEMA: "id BIGINT NOT NULL"
    }
    assert early_option(Decoding("json", parse_ddl(SCHEMA)))
    for payload, schema in ("csv", "id BIGINT"), ("json", "x BINARY"), ("json", "id INT, a ARRAY<INT>"):
        assert early_option(Decoding(payload, parse_ddl(schema))) == {}
    assert early_option(None) == {}
