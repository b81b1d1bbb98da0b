"""Conditions on fields of JSON payloads, for the message browser.

    amount > 10
    country = "DE" and (amount >= 100 or customer.vip = true)
    not items.0.sku contains 'test'

A field is a path with dots; a number selects from an array, and quotes keep a name with strange characters
together ("a.b".c). A value is a number, a text in quotes (or a bare word), true, false or null. Only values
of one kind can be ordered: a text is never less than a number. A field that is missing fulfills nothing but
`not` and `= null`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.errors import HeadraceError
from headrace.unreadable import UNREADABLE_JSON

MAX_CHARACTERS = 1000
MAX_DEPTH = 20
MISSING = object()

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<operator><=|>=|!=|==|=|<|>|~|\(|\))
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<dot>\.)
      | (?P<word>[^\s()<>=!~"'.]+(?:\.(?=\d)[^\s()<>=!~"'.]+)?)
    )""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)

Predicate = Callable[[Any], bool]


class FilterError(HeadraceError):
    """What is wrong with a filter, for the one who typed it."""


def parse_filter(text: str) -> Callable[[bytes], bool]:
    """A function that tells whether a payload passes. Raises FilterError."""
    if len(text) > MAX_CHARACTERS:
        raise FilterError(f"the filter is longer than {MAX_CHARACTERS} characters")
    predicate = _Parser(text).parse()

    def passes(payload: bytes) -> bool:
        try:
            document = msgspec.json.decode(payload)
        except UNREADABLE_JSON:
            return False
        return predicate(document)

    return passes


class _Parser:
    """or < and < not < a comparison."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise FilterError(f"cannot read the filter from {text[position:].strip()[:20]!r} on")
            kind = found.lastgroup or ""
            self._tokens.append((kind, found[kind]))
            position = found.end()
        self._place = 0
        self._depth = 0

    def parse(self) -> Predicate:
        predicate = self._either()
        if self._place < len(self._tokens):
            raise FilterError(f"{self._tokens[self._place][1]!r} is unexpected; join conditions with and, or")
        return predicate

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._place] if self._place < len(self._tokens) else ("", "")

    def _accept(self, *words: str) -> bool:
        kind, text = self._peek()
        if kind in ("word", "operator") and text.lower() in words:
            self._place += 1
            return True
        return False

    def _either(self) -> Predicate:
        parts = [self._all()]
        while self._accept("or", "||"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else lambda document: any(part(document) for part in parts)

    def _all(self) -> Predicate:
        parts = [self._one()]
        while self._accept("and", "&&"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda document: all(part(document) for part in parts)

    def _one(self) -> Predicate:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FilterError("the filter is nested too deep")
        try:
            if self._accept("not"):
                inner = self._one()
                return lambda document: not inner(document)
            if self._accept("("):
                inner = self._either()
                if not self._accept(")"):
                    raise FilterError("a parenthesis is not closed")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Predicate:
        path = self._path()
        kind, text = self._peek()
        operator = text.lower()
        if (kind, operator) in (("word", "exists"), ("", "")):
            self._place += kind == "word"
            return lambda document: find(document, path) is not MISSING
        if kind not in ("operator", "word") or operator not in COMPARISONS:
            raise FilterError(f"after {'.'.join(path)} comes one of {' '.join(COMPARISONS)}, not {text!r}")
        self._place += 1
        compare, wanted = COMPARISONS[operator], self._value()
        return lambda document: compare(find(document, path), wanted)

    def _path(self) -> list[str]:
        path: list[str] = []
        while True:
            kind, text = self._peek()
            if kind == "text":
                path.append(_unquote(text))
            elif kind == "word":
                path += text.split(".")
            else:
                raise FilterError("a condition begins with the name of a field")
            self._place += 1
            if self._peek()[0] != "dot":
                return path
            self._place += 1

    def _value(self) -> Any:
        kind, text = self._peek()
        if kind not in ("text", "word"):
            raise FilterError("a comparison ends with a value")
        self._place += 1
        if kind == "text":
            return _unquote(text)
        constants = {"true": True, "false": False, "null": None}
        if text.lower() in constants:
            return constants[text.lower()]
        if _NUMBER.fullmatch(text) and len(text) < 100:
            return float(text) if any(character in text for character in ".eE") else int(text)
        return text


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def find(document: Any, path: list[str]) -> Any:
    """The value of a field, or MISSING. A name of an object that has dots itself is found, too."""
    for name in path:
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list) and name.isdecimal() and len(name) < 10 and int(name) < len(document):
            document = document[int(name)]
        else:
            return MISSING
    return document


def _is_same(found: Any, wanted: Any) -> bool:
    if wanted is None:
        return found is None or found is MISSING
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return bool(found == wanted)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def check(found: Any, wanted: Any) -> bool:
        numbers = _is_number(found) and _is_number(wanted)
        texts = isinstance(found, str) and isinstance(wanted, str)
        return (numbers or texts) and compare(found, wanted)

    return check


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _contains(found: Any, wanted: Any) -> bool:
    if isinstance(found, str):
        return str(wanted).lower() in found.lower()
    return isinstance(found, list) and wanted in found


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": _is_same,
    "==": _is_same,
    "!=": lambda found, wanted: found is not MISSING and not _is_same(found, wanted),
    "<": _ordered(lambda found, wanted: found < wanted),
    "<=": _ordered(lambda found, wanted: found <= wanted),
    ">": _ordered(lambda found, wanted: found > wanted),
    ">=": _ordered(lambda found, wanted: found >= wanted),
    "~": _contains,
    "contains": _contains,
}
