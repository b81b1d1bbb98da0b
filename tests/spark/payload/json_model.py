"""What a JSON payload means, said in the simplest way: the standard library, and a rule for each type.

It shares nothing with what it is compared to. Payloads are made from a seed, most of them right, many almost.
"""

from __future__ import annotations

import datetime
import json
import random
import re
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

SCHEMA = (
    "b TINYINT, l BIGINT, d DOUBLE, f FLOAT, e DECIMAL(6, 2), s STRING, o BOOLEAN, y DATE, t TIMESTAMP, "
    "a ARRAY<DECIMAL(4, 1)>, r STRUCT<i: INT NOT NULL, t: TIMESTAMP>, m MAP<STRING, BIGINT>, "
    "q BIGINT NOT NULL"
)
TYPES: dict[str, Any] = {
    "b": "int8",
    "l": "int64",
    "d": "double",
    "f": "float",
    "e": (6, 2),
    "s": "string",
    "o": "boolean",
    "y": "date",
    "t": "timestamp",
    "a": [(4, 1)],
    "r": {"i": "int32!", "t": "timestamp"},
    "m": {"*": "int64"},
    "q": "int64!",
}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
LONG_NUMBER = re.compile(r"[0-9][0-9.]{16}|[0-9][eE]")


class Misfit(Exception):
    """The payload must not become a row."""


class Number(str):
    """With a fraction or an exponent."""


class Text:
    """In a STRING column, the JSON of a value that is none; `unsure` if it may be refused instead."""

    def __init__(self, value: Any, unsure: bool) -> None:
        self.value, self.unsure = value, unsure

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and _as_floats(json.loads(other)) == _as_floats(self.value)

    def __repr__(self) -> str:
        return f"Text({self.value!r})"


def _as_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_floats(item) for item in value]
    return float(value) if isinstance(value, float | Number) else value


def expected(payload: bytes, types: dict[str, Any] = TYPES) -> dict[str, Any]:
    """The row, without nulls. Raises Misfit."""
    try:
        text = payload.decode()
        document = json.loads(text, parse_float=Number, parse_constant=_refuse)
    except ValueError as error:
        raise Misfit(str(error)) from None
    if not isinstance(document, dict):
        raise Misfit("not an object")
    if re.search("[\ud800-\udfff]", json.dumps(document, ensure_ascii=False)):
        raise Misfit("half a surrogate pair")
    row = _record(document, types, bool(LONG_NUMBER.search(text)))
    return {name: value for name, value in row.items() if value is not None}


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _record(document: dict[str, Any], types: dict[str, Any], unsure: bool) -> dict[str, Any]:
    row = {}
    for name, kind in types.items():
        value = document.get(name)
        if isinstance(kind, str) and kind.endswith("!"):
            kind = kind[:-1]
            if value is None:
                raise Misfit(f"{name} is NOT NULL")
        row[name] = None if value is None else _value(value, kind, unsure)
    return row


def _value(value: Any, kind: Any, unsure: bool) -> Any:
    if isinstance(kind, list):
        if not isinstance(value, list):
            raise Misfit("no array")
        return [None if item is None else _value(item, kind[0], unsure) for item in value]
    if isinstance(kind, dict):
        if not isinstance(value, dict):
            raise Misfit("no object")
        if "*" in kind:
            return {
                key: None if item is None else _value(item, kind["*"], unsure) for key, item in value.items()
            }
        return _record(value, kind, unsure)
    if isinstance(kind, tuple):
        return _decimal(value, *kind)
    if kind == "string":
        if isinstance(value, Number | dict | list):
            return Text(value, unsure)
        if isinstance(value, str):
            return value
        return json.dumps(value)
    if kind == "boolean":
        return _need(value, isinstance(value, bool))
    if kind.startswith("int"):
        limit = 2 ** (int(kind[3:]) - 1)
        return _need(value, type(value) is int and -limit <= value < limit)
    if kind in ("double", "float"):
        return _float(value, kind)
    return _moment(value, kind)


def _need(value: Any, condition: bool) -> Any:
    if not condition:
        raise Misfit(repr(value))
    return value


def _float(value: Any, kind: str) -> float:
    _need(value, type(value) is int or isinstance(value, Number))
    try:
        number = float(value)
        if kind == "float":
            (number,) = struct.unpack("f", struct.pack("f", number))
    except OverflowError:
        raise Misfit(repr(value)) from None
    return float(_need(number, abs(number) != float("inf")))


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    _need(value, type(value) is int or isinstance(value, str))
    _need(value, re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", str(value)) is not None)
    number = Decimal(str(value))
    _need(value, abs(number) < 10 ** (precision - scale) and (Fraction(number) * 10**scale).denominator == 1)
    return number


def _moment(value: Any, kind: str) -> Any:
    pattern = (
        r"\d{4}-\d\d-\d\d"
        if kind == "date"
        else r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"
    )
    _need(value, kind != "timestamp_ntz" or not re.search(r"Z$|[+-]\d\d:\d\d$", str(value)))
    _need(value, type(value) is str and re.fullmatch(pattern, value, re.ASCII) is not None)
    try:
        if kind == "date":
            return datetime.date.fromisoformat(value)
        moment = datetime.datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", value))
    except ValueError:
        raise Misfit(value) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    return (moment - EPOCH) // datetime.timedelta(microseconds=1)


# -- Payloads --

LITERALS = [
    *("0", "-0", "1", "127", "128", "-128", "-129", "200", "9007199254740993", "9223372036854775807"),
    *(
        "9223372036854775808",
        "-9223372036854775808",
        "2147483648",
        "1.0",
        "1.5",
        "-0.0",
        "1e3",
        "1E-7",
        "1e400",
    ),
    *(
        "3.5e38",
        "9999.99",
        "10000",
        "10000.00",
        "1.005",
        "1.50000",
        "0.1",
        "12.34",
        "123.4",
        "999.9",
        "999.95",
    ),
    *(
        "12345678901234567890.123",
        "0.12345678901234567",
        "true",
        "false",
        "null",
        "NaN",
        "Infinity",
        "01",
        "+1",
    ),
    *(
        "[]",
        "{}",
        "[1.5,null]",
        "[1.55]",
        '[1,"2.5"]',
        '{"i":1}',
        '{"i":null}',
        '{"k":1}',
        '{"k":1.5}',
        '{"i":"1"}',
    ),
    *('{"i":7,"t":"2026-01-01T00:00:00Z"}', '{"i":7,"t":"x"}', '{"k":null,"j":2}', '{"x":{"y":[1.25,"z"]}}'),
    *('""', '"1"', '"1.5"', '"12.30"', '"1,5"', '"1e2"', '"NaN"', '"true"', '"x y"', '"\\ud83d\\ude00"'),
    *(
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '"\\\\ud800"',
        '"\\\\\\ud800"',
        '"é"',
        '"{\\"k\\":1.5}"',
        '"a\\u0000b"',
    ),
    *(
        '"2026-01-01"',
        '"2026-02-30"',
        '"0001-01-01"',
        '"9999-12-31"',
        '"2026-1-1"',
        '"0000-01-01"',
        '"10:00"',
    ),
    *('"2026-01-01T00:00:00Z"', '"2026-01-01 23:59:59.123456789+05:30"', '"2026-01-01T24:00:00Z"'),
    *(
        '"2999-12-31T23:59:59.999999-12:00"',
        '"0001-01-01T00:00:00Z"',
        '"2026-01-01T00:00:00"',
        '"2026-01-01T00:00Z"',
    ),
    *(
        '"1582-10-10T00:00:00Z"',
        '"1900-01-01T00:00:00Z"',
        '"2026-06-01T12:00:00.1+02:00"',
        '"2026-01-01T23:59:60Z"',
    ),
]
RIGHT: dict[str, list[str]] = {
    "b": ["1", "-128"],
    "l": ["9007199254740993"],
    "d": ["1.5", "1"],
    "f": ["2.5"],
    "e": ["12.34", '"1.5"'],
    "s": ['"x"', "7"],
    "o": ["true"],
    "y": ['"2999-12-31"'],
    "t": ['"2026-01-01T00:00:00+02:00"'],
    "a": ["[1.5]"],
    "r": ['{"i":1}'],
    "m": ['{"k":5}'],
    "q": ["1"],
}


def payloads(seed: int, count: int) -> list[bytes]:
    generator = random.Random(seed)
    return [_payload(generator) for _ in range(count)]


def _payload(generator: random.Random) -> bytes:
    fields = []
    for name, right in RIGHT.items():
        if generator.random() < (0.97 if name == "q" else 0.4):
            odd = generator.random() < 0.12
            fields.append(f'"{name}":{generator.choice(LITERALS if odd else right)}')
    if generator.random() < 0.1:
        fields.append(f'"other":{generator.choice(LITERALS)}')
    generator.shuffle(fields)
    space = generator.choice(["", "", " ", "\n"])
    data = f"{space}{{{f',{space}'.join(fields)}}}{space}".encode()
    if generator.random() < 0.1:
        data = _damaged(generator, data)
    return data


def _damaged(generator: random.Random, data: bytes) -> bytes:
    place = generator.randrange(len(data) + 1)
    how = generator.randrange(5)
    if how == 0:
        return data[:place]
    if how == 1:
        return data + generator.choice(
            [b"x", data, b",", b"," + data, b"]", b'],"x":[1', b"}", b"\0", b" null"]
        )
    if how == 2:
        return data[:place] + bytes([generator.randrange(256)]) + data[place:]
    if how == 3:
        return generator.choice(
            [b"", b"null", b"1", b"[]", b'"x"', b"[" + data + b"]", b"\xef\xbb\xbf" + data]
        )
    return data[:place] + data[place + 1 :]
