"""Query strings as Go reads them, with nats-server's texts for values that it cannot read.

Go drops a pair that it cannot decode, and one with a semicolon in it; of several values the first counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

from headrace.errors import HeadraceError
from headrace.go_formats import quote

Query = Mapping[str, str]

TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
MAX_INT64 = 2**63 - 1
MAX_UINT64 = 2**64 - 1
MAX_DIGITS = 100  # more than any number that is in range; int() of a huge text is slow

_BROKEN_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_SIGNED = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UNSIGNED = re.compile(r"[0-9]+", re.ASCII)


class BadQuery(HeadraceError):
    """A query that cannot be answered; the message is the body of the 400."""


def parse_query(text: str) -> dict[str, str]:
    """The first value of every name. Bytes that are not UTF-8 become lone surrogates."""
    values: dict[str, str] = {}
    for pair in text.split("&"):
        if not pair or ";" in pair or _BROKEN_ESCAPE.search(pair):
            continue
        name, _, value = pair.partition("=")
        values.setdefault(_decode(name), _decode(value))
    return values


def _decode(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "surrogateescape")


def decode_bool(query: Query, name: str) -> bool:
    value = query.get(name, "")
    if value in TRUE:
        return True
    if not value or value in FALSE:
        return False
    raise BadQuery(
        f"Error decoding boolean for '{name}': strconv.ParseBool: parsing {quote(value)}: invalid syntax"
    )


def decode_int(query: Query, name: str) -> int:
    """A signed 64-bit number; 0 if it is not given."""
    return _decode_number(query, name, "int", "Atoi", _SIGNED, range(-MAX_INT64 - 1, MAX_INT64 + 1))


def decode_uint64(query: Query, name: str) -> int:
    return _decode_number(query, name, "uint64", "ParseUint", _UNSIGNED, range(MAX_UINT64 + 1))


def _decode_number(
    query: Query, name: str, kind: str, function: str, syntax: re.Pattern[str], allowed: range
) -> int:
    value = query.get(name, "")
    if not value:
        return 0
    problem = "invalid syntax"
    if syntax.fullmatch(value):
        problem = "value out of range"
        if len(value) <= MAX_DIGITS and (number := int(value)) in allowed:
            return number
    raise BadQuery(
        f"Error decoding {kind} for '{name}': strconv.{function}: parsing {quote(value)}: {problem}"
    )
