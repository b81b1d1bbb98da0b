"""`--infer`: a schema from a sample of payloads, for a person to review.

A field that was in every object is proposed as NOT NULL, which the sample cannot prove: the report says how
often each field was there, with an example, so that the reader decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.errors import UsageError
from headrace.spark.payload import text_rules
from headrace.spark.payload.ddl import MAX_DECIMAL_DIGITS, ddl, type_text

LONG_LIMIT = 2**63
EXAMPLE_CHARACTERS = 40
MIXED, EMPTY = "mixed types", "always null or empty"


@dataclass
class _Seen:
    """What was found at one place in the payloads."""

    times: int = 0
    nulls: int = 0
    kinds: set[str] = field(default_factory=set)
    example: str = ""
    digits: int = 0
    fields: dict[str, _Seen] = field(default_factory=dict)
    items: _Seen | None = None
    objects: int = 0

    def add(self, value: Any) -> None:
        self.times += 1
        if value is None:
            self.nulls += 1
            return
        self.kinds.add(_kind(value))
        if not self.example:
            text = json.dumps(value, ensure_ascii=False)
            self.example = text if len(text) <= EXAMPLE_CHARACTERS else text[: EXAMPLE_CHARACTERS - 1] + "…"
        if isinstance(value, int) and not isinstance(value, bool):
            self.digits = max(self.digits, len(str(abs(value))))
        elif isinstance(value, dict):
            self.objects += 1
            for name, inner in value.items():
                self.fields.setdefault(name, _Seen()).add(inner)
        elif isinstance(value, list):
            self.items = self.items or _Seen()
            for item in value:
                self.items.add(item)


@dataclass(frozen=True)
class Found:
    """A field of the proposal."""

    path: str
    type: str
    times: int
    of: int
    """How many objects could have had it."""
    example: str
    note: str = ""


@dataclass(frozen=True)
class Proposal:
    schema: StructType
    fields: tuple[Found, ...]
    messages: int
    not_json: int
    """Payloads that are not JSON objects; they would be dead letters."""

    @property
    def ddl(self) -> str:
        return ddl(self.schema)

    def lines(self) -> Iterator[str]:
        """The report: the DDL, then a line for each field."""
        yield self.ddl
        yield ""
        width = max(len(found.path) for found in self.fields)
        kinds = max(len(found.type) for found in self.fields)
        for found in self.fields:
            share = f"{found.times} of {found.of}"
            note = f"  ({found.note})" if found.note else ""
            line = f"{found.path:{width}}  {found.type:{kinds}}  in {share}  {found.example}"
            yield f"{line}{note}".rstrip()
        if self.not_json:
            share = f"{self.not_json} of {self.messages}"
            yield f"{share} payloads are not JSON objects; they would be dead letters"


def infer(payloads: Iterable[bytes]) -> Proposal:
    """A schema that these payloads fit. Raises UsageError if there are none, or none is a JSON object."""
    root, messages, not_json = _Seen(), 0, 0
    for payload in payloads:
        messages += 1
        value = _object(payload)
        if value is None:
            not_json += 1
        else:
            root.add(value)
    if not messages:
        raise UsageError("the stream has no messages to infer a schema from")
    schema = _struct(root)
    if not schema.fields:
        raise UsageError(
            f"none of {messages} payloads is a JSON object with fields",
            hint="use --payload text or raw, or give a schema for avro, protobuf or csv",
        )
    return Proposal(schema, tuple(_report(root, "")), messages, not_json)


def _object(payload: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(payload.decode(), parse_constant=_refuse)
        if b"\\u" in payload:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # not UTF-8, not even with escapes, not JSON, nested too deeply
        return None
    return value if isinstance(value, dict) else None


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer" if -LONG_LIMIT <= value < LONG_LIMIT else "big integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        if re.match(text_rules.TIMESTAMP, value):
            return "timestamp"
        return "date" if re.match(text_rules.DATE, value) else "string"
    return "object" if isinstance(value, dict) else "array"


def _type(seen: _Seen) -> tuple[DataType, str]:
    """The type for everything seen, and what a reader should know about it."""
    kinds = seen.kinds
    if not kinds:
        return StringType(), EMPTY
    if kinds <= {"integer", "big integer"}:
        if kinds == {"integer"}:
            return LongType(), ""
        if seen.digits > MAX_DECIMAL_DIGITS:
            return StringType(), f"up to {seen.digits} digits, more than a DECIMAL has"
        return DecimalType(max(seen.digits, 20), 0), "too large for BIGINT"
    if kinds <= {"integer", "big integer", "number"}:
        return DoubleType(), "DECIMAL(p, s) instead keeps every digit, as money needs"
    if kinds <= {"string", "timestamp", "date"}:
        exact: dict[frozenset[str], DataType] = {
            frozenset({"timestamp"}): TimestampType(),
            frozenset({"date"}): DateType(),
        }
        return exact.get(frozenset(kinds), StringType()), ""
    if kinds == {"boolean"}:
        return BooleanType(), ""
    if kinds == {"object"}:
        struct = _struct(seen)
        return (struct, "") if struct.fields else (StringType(), EMPTY)
    if kinds == {"array"}:
        inner, note = _type(seen.items or _Seen())
        return ArrayType(inner), note
    return StringType(), f"{MIXED}: {', '.join(sorted(kinds))}"


def _struct(seen: _Seen) -> StructType:
    fields = []
    names: set[str] = set()
    for name, inner in seen.fields.items():
        if name.lower() in names or not name:
            continue  # a table cannot have both; `_report` says so
        names.add(name.lower())
        always = inner.times == seen.objects and not inner.nulls
        fields.append(StructField(name, _type(inner)[0], not always))
    return StructType(fields)


def _report(seen: _Seen, path: str) -> Iterator[Found]:
    names: set[str] = set()
    for name, inner in seen.fields.items():
        place = f"{path}.{name}" if path else name
        kind, note = _type(inner)
        if name.lower() in names or not name:
            note = (
                "left out: another field has this name but for its case" if name else "left out: has no name"
            )
        names.add(name.lower())
        shown = "STRUCT" if isinstance(kind, StructType) else type_text(kind)
        shown = "ARRAY<STRUCT>" if _is_array_of_structs(kind) else shown
        yield Found(place, shown, inner.times - inner.nulls, seen.objects, inner.example, note)
        if isinstance(kind, StructType):
            yield from _report(inner, place)
        elif _is_array_of_structs(kind) and inner.items:
            yield from _report(inner.items, f"{place}[]")


def _is_array_of_structs(kind: DataType) -> bool:
    return isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType)
