"""`--infer` proposes a schema that the sample fits, and says what it is based on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import UsageError
from headrace.spark.payload.ddl import parse_ddl
from headrace.spark.payload.inference import infer
from headrace.spark.payload.json_rules import json_problem


def payloads(*values: Any) -> list[bytes]:
    return [json.dumps(value).encode() for value in values]


def test_fields_get_types_and_only_those_that_were_always_there_are_not_null() -> None:
    proposal = infer(
        payloads(
            {"id": 1, "at": "2026-01-01T00:00:00Z", "big": 2**64, "r": {"x": 1}, "l": [{"y": True}]},
            {"id": 2, "at": "2026-01-02T00:00:00Z", "price": 1.5, "r": {}, "l": []},
            {"id": 3, "at": None, "mixed": 1, "day": "2026-01-01"},
            {"id": 4, "at": "2026-01-02T00:00:00Z", "mixed": "a"},
        )
    )
    assert proposal.ddl == (
        "id BIGINT NOT NULL, at TIMESTAMP, big DECIMAL(20, 0), r STRUCT<x: BIGINT>, "
        "l ARRAY<STRUCT<y: BOOLEAN NOT NULL>>, price DOUBLE, mixed STRING, day DATE"
    )
    notes = {found.path: (found.times, found.of, found.note) for found in proposal.fields}
    assert notes["id"] == (4, 4, "")
    assert notes["at"] == (3, 4, "")
    assert notes["big"] == (1, 4, "too large for BIGINT")
    assert notes["r.x"] == (1, 2, "")
    assert notes["l[].y"] == (1, 1, "")
    assert notes["mixed"] == (2, 4, "mixed types: integer, string")
    lines = list(proposal.lines())
    assert lines[0] == proposal.ddl
    assert any(line.startswith("at ") and "in 3 of 4" in line for line in lines)


def test_payloads_that_are_no_objects_are_counted() -> None:
    proposal = infer([b"hello", b"[1]", *payloads({"a": 1})])
    assert list(proposal.lines())[-1] == "2 of 3 payloads are not JSON objects; they would be dead letters"


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ([], "the stream has no messages to infer a schema from"),
        ([b"hello", b"\xff"], "none of 2 payloads is a JSON object with fields"),
        ([b"{}"], "none of 1 payloads is a JSON object with fields"),
    ],
)
def test_without_json_there_is_no_proposal(sample: list[bytes], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        infer(sample)
    assert refused.value.message == message


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**37), 10**37)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    | st.dates().map(str)
    | st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES, min_size=1), min_size=1, max_size=5))
def test_the_sample_fits_what_is_proposed(values: list[dict[str, Any]]) -> None:
    sample = payloads(*values)
    proposal = infer(sample)
    schema = parse_ddl(proposal.ddl)
    assert schema == proposal.schema
    assert [json_problem(payload, schema) for payload in sample] == [None] * len(sample)


def test_half_of_a_surrogate_pair_is_no_text_to_propose_a_column_for() -> None:
    proposal = infer([b'{"s": "\\ud800"}', b'{"k\\ud800": 1}', b'{"s": "\\ud83d\\ude00"}'])
    assert proposal.ddl == "s STRING NOT NULL"
    assert list(proposal.lines())[2:] == [
        's  STRING  in 1 of 1  "\U0001f600"',
        "2 of 3 payloads are not JSON objects; they would be dead letters",
    ]
