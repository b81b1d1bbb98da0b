"""The values of a configuration file, with their line and column.

The parser makes them, the directives read them. A map is a dict of str to Value, an array is a list of
Value; the other kinds are str, bool, int, float and datetime.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from headrace.errors import ConfigError

Plain: TypeAlias = "str | bool | int | float | datetime | list[Value] | dict[str, Value]"

KIND_NAMES: dict[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a float",
    datetime: "a date",
    list: "an array",
    dict: "a map",
}


@dataclass(slots=True)
class Value:
    """One value and its position: for a value in a map, the position of its key.

    Lines count from 1. Columns count from 1 too, except on the first line, where they count from 0: that is
    how nats-server reports them, and editors and scripts that read its messages may read ours.
    """

    plain: Plain
    path: str
    line: int
    column: int
    used_as_variable: bool = False

    def error(self, message: str, *, hint: str = "") -> ConfigError:
        """An error that points at this value, for the caller to raise or collect."""
        return ConfigError(message, path=self.path, line=self.line, column=self.column, hint=hint)

    def wrong_kind(self, expected: type) -> ConfigError:
        """An error that says what kind of value is needed here, and never the value: it may be a password."""
        return self.error(f"expected {KIND_NAMES[expected]}, got {KIND_NAMES[type(self.plain)]}")

    def string(self) -> str:
        if type(self.plain) is str:
            return self.plain
        raise self.wrong_kind(str)

    def boolean(self) -> bool:
        if type(self.plain) is bool:
            return self.plain
        raise self.wrong_kind(bool)

    def integer(self) -> int:
        if type(self.plain) is int:
            return self.plain
        raise self.wrong_kind(int)

    def mapping(self) -> dict[str, Value]:
        if type(self.plain) is dict:
            return self.plain
        raise self.wrong_kind(dict)

    def array(self) -> list[Value]:
        if type(self.plain) is list:
            return self.plain
        raise self.wrong_kind(list)


def digest(mapping: dict[str, Value]) -> str:
    """The `sha256:...` by which a configuration is named in the log and by `-t`.

    It is the hash of the values as compact JSON with sorted keys, exactly as nats-server hashes them, so both
    servers print the same digest for a file (and a test can compare every parsed value through it).
    """
    try:
        text = _json(mapping) + "\n"
    except RecursionError:  # references to maps that hold references to maps, and so on
        raise ConfigError("the configuration is nested too deep") from None
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def _json(plain: Plain) -> str:
    if isinstance(plain, dict):
        items = sorted(plain.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape"))
        return "{" + ",".join(f"{_json_string(key)}:{_json(value.plain)}" for key, value in items) + "}"
    if isinstance(plain, list):
        return "[" + ",".join(_json(value.plain) for value in plain) + "]"
    if isinstance(plain, str):
        return _json_string(plain)
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, datetime):
        return f'"{plain:%Y-%m-%dT%H:%M:%SZ}"' if plain.year >= 1000 else f'"{plain.isoformat()[:19]}Z"'
    if isinstance(plain, float):
        return _json_float(plain)
    return str(plain)


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _json_string(text: str) -> str:
    return '"' + "".join(_json_character(character) for character in text) + '"'


def _json_character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character < " " or character in "<>&\u2028\u2029":
        return f"\\u{ord(character):04x}"
    if "\ud800" <= character <= "\udfff":  # a byte that is not UTF-8
        return "\\ufffd"
    return character


def _json_float(number: float) -> str:
    """The shortest form that reads back the same: plain digits, or an exponent for very small and very big
    numbers.
    """
    magnitude = abs(number)
    if magnitude and (magnitude < 1e-6 or magnitude >= 1e21):
        mantissa, _, exponent = repr(number).partition("e")
        return (
            f"{mantissa.removesuffix('.0')}e{int(exponent):+03d}"
            if int(exponent) > 0
            else f"{mantissa}e{int(exponent)}"
        )
    text = repr(number)
    if "e" in text:
        text = f"{number:.30f}".rstrip("0") if magnitude < 1 else f"{number:.0f}"
    return text.removesuffix(".0")
