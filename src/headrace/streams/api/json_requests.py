"""Decodes requests as nats-server does, and refuses them with the same texts.

Go's rules differ from msgspec's: field names match in any case, null changes nothing, a body may have
several values that are merged, an empty one is the same as {}, and the first wrong field is reported by its
path and Go type. Clients see these texts, so they are made here, from the annotations of wire_types.

Small bodies (pull requests, delays, resets, unpins) are decoded by `unmarshal`, as in nats-server: unknown
fields are ignored, there is exactly one value, and errors have Go's plain words.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Annotated, Any, NamedTuple, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from headrace.engine.streams.json_syntax import examine
from headrace.go_formats import quote
from headrace.streams.config import Wire
from headrace.streams.errors import ApiError, api_error
from headrace.streams.formats import normalise_time
from headrace.streams.wire_types import Choice, Moment, Number, Text

WireType = TypeVar("WireType", bound=Wire)
END_OF_INPUT = "unexpected end of JSON input"
PREFIX = "invalid JSON: "
LONG_BODY = 8 * 1024
MAX_WEIGHT = 40_000
"""Of a body: a string weighs 4, any other value and every key 8 (see json_syntax.pyx). Five thousand fields
are decoded in about five milliseconds, in which nobody else is served; ten thousand subjects in less, but
they have to be compared, too."""
TOO_MANY_VALUES = "too many values"
HALF_PAIR = re.compile("[\ud800-\udfff]")
Path = tuple[str | int, ...]


class WrittenNumber(str):
    """A number as it was written."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """An object, with the order and the repetitions of its keys."""

    __slots__ = ()


def decode(body: bytes, kind: type[WireType], *, strict: bool = True) -> WireType:
    """The request, or ApiError `invalid_json`. Not strict, unknown fields are ignored in just one value."""
    request = kind()
    binder = _Binder(kind.go_name or kind.__name__, strict)
    for value in _parse(body, may_go_on=strict):
        binder.bind_top(value, request)
    if binder.complaint:
        _refuse(binder.complaint)
    return request


def _refuse(reason: str) -> NoReturn:
    raise api_error("invalid_json", err=reason)


def _parse(body: bytes, *, may_go_on: bool) -> list[Any]:
    """All values of the body, numbers as text."""
    if len(body) > LONG_BODY:
        fault, weight = examine(body)
        if fault or weight > MAX_WEIGHT:
            _refuse(fault or TOO_MANY_VALUES)
    text = body.decode("utf-8", "replace")
    values: list[Any] = []
    offset, length = 0, len(text)
    try:
        while True:
            while offset < length and text[offset] in " \t\r\n":
                offset += 1
            if offset == length:
                return values
            if values and not may_go_on:
                _refuse_rest(body, text, offset)
            value, offset = _JSON.raw_decode(text, offset)
            values.append(value)
    except (ValueError, RecursionError):
        _refuse(examine(body)[0] or "exceeded max depth")


def _refuse_rest(body: bytes, text: str, offset: int) -> NoReturn:
    """Reports what follows the only value. The rest of a number is a fault in the number: `1.`"""
    fault = examine(body)[0] if text[offset] in ".eE" and text[offset - 1].isdigit() else ""
    _refuse(fault or f"invalid character {_quote_character(text[offset])} after top-level value")


def _quote_character(character: str) -> str:
    """In single quotes, as in Go's errors."""
    if character == "'":
        return r"'\''"
    return "'" + (character if character == '"' else quote(character)[1:-1]) + "'"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_JSON = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_int=WrittenNumber, parse_float=WrittenNumber, parse_constant=_no_constant
)


@cache
def _fields(kind: type[Wire]) -> dict[str, tuple[str, str, Any]]:
    """By lower-case name: the name, that of the attribute, and its type."""
    hints = get_type_hints(kind, include_extras=True)
    names = zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
    return {name.lower(): (name, attribute, hints[attribute]) for name, attribute in names}


class _Shape(NamedTuple):
    """An analysed annotation, cached because a request may have very many values."""

    kind: Any
    rule: Any
    is_optional: bool
    is_list: bool
    is_map: bool
    is_struct: bool
    item: Any


@cache
def _shape(kind: Any) -> _Shape:
    rule: Any = None
    is_optional = type(None) in get_args(kind)
    if is_optional:
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) is Annotated:
        kind, rule = get_args(kind)[:2]
    is_list, is_map = get_origin(kind) is list, get_origin(kind) is dict
    is_struct = isinstance(kind, type) and issubclass(kind, Wire)
    item = get_args(kind)[-1] if is_list or is_map else None
    return _Shape(kind, rule, is_optional, is_list, is_map, is_struct, item)


class _Binder:
    """Merges values into structs. After an error Go continues, and reports the first error at the end."""

    def __init__(self, root: str, strict: bool) -> None:
        self.root = root
        self.strict = strict
        self.complaint = ""

    def complain(self, text: str) -> None:
        self.complaint = self.complaint or _clean(text)

    def mismatch(self, found: str, path: Path, wanted: str) -> None:
        if not path:
            where = "Go value"
        else:
            prefix = "" if isinstance(path[-1], int) else "Go struct field "
            where = prefix + ".".join([self.root, *map(str, path)])
        self.complain(f"json: cannot unmarshal {found} into {where} of type {wanted}")

    def bind_top(self, value: Any, request: Wire) -> None:
        if isinstance(value, Pairs):
            self.bind_struct(value, request, ())
        elif value is not None:
            self.mismatch(_describe(value), (), f"server.{self.root}")

    def bind_struct(self, pairs: Pairs, target: Wire, path: Path) -> None:
        fields = _fields(type(target))
        for key, value in pairs:
            if self.complaint:
                return
            name, attribute, kind = fields.get(key.lower(), ("", "", None))
            if not name:
                if self.strict:
                    self.complain(f"json: unknown field {json.dumps(key, ensure_ascii=False)}")
                continue
            old = getattr(target, attribute)
            setattr(target, attribute, self.bind(value, kind, old, (*path, name)))

    def bind(self, value: Any, kind: Any, old: Any, path: Path) -> Any:
        """The value as that type; the old one if it does not fit."""
        shape = _shape(kind)
        kind, rule = shape.kind, shape.rule
        if value is None and shape.is_optional:
            return None
        if isinstance(rule, Choice):
            return self.bind_choice(value, rule, old)
        if isinstance(rule, Moment):
            return self.bind_moment(value, old, path)
        if value is None:
            return [] if shape.is_list else {} if shape.is_map else old
        if shape.is_struct:
            return self.bind_nested(value, kind, old, path)
        if shape.is_list:
            return self.bind_list(value, shape, old, path)
        if shape.is_map:
            return self.bind_map(value, shape, old, path)
        return self.bind_scalar(value, kind, rule, old, path)

    def bind_nested(self, value: Any, kind: type[Wire], old: Any, path: Path) -> Any:
        if not isinstance(value, Pairs):
            self.mismatch(_describe(value), path, _go_type(kind))
            return old
        target = old if isinstance(old, kind) else kind()
        self.bind_struct(value, target, path)
        return target

    def bind_list(self, value: Any, shape: _Shape, old: Any, path: Path) -> Any:
        if isinstance(value, Pairs) or not isinstance(value, list):
            self.mismatch(_describe(value), path, _go_type(shape.kind))
            return old
        item = shape.item
        if item is str and set(map(type, value)) <= {str}:  # tens of thousands of subjects take a millisecond
            return value if all(map(str.isascii, value)) else list(map(_clean, value))
        return [self.bind(part, item, _empty(item), (*path, index)) for index, part in enumerate(value)]

    def bind_map(self, value: Any, shape: _Shape, old: Any, path: Path) -> Any:
        if not isinstance(value, Pairs):
            self.mismatch(_describe(value), path, _go_type(shape.kind))
            return old
        item = shape.item
        if item is str and all(type(part) is str for _, part in value):
            return {**old, **{_clean(key): _clean(part) for key, part in value}}
        return {
            **old,
            **{_clean(key): self.bind(part, item, _empty(item), (*path, key)) for key, part in value},
        }

    def bind_scalar(self, value: Any, kind: Any, rule: Number | Text | None, old: Any, path: Path) -> Any:
        found = _describe(value)
        if isinstance(rule, Number) and isinstance(value, WrittenNumber):
            number = _integer(value)
            has_sign = value.startswith("-") and rule.lowest == 0  # not even -0
            if number is not None and rule.lowest <= number <= rule.highest and not has_sign:
                return number
            found = f"number {value}"
        elif (kind is str and found == "string") or (kind is bool and found == "bool"):
            return _clean(value) if kind is str else value
        self.mismatch(found, path, rule.go_name if rule else _go_type(kind))
        return old

    def bind_choice(self, value: Any, rule: Choice, old: Any) -> Any:
        raw = _raw(value)
        word = value.lower() if rule.ignore_case and isinstance(value, str) else value
        if raw.startswith('"'):
            word = dict(rule.aliases).get(word, word)
            if word in rule.words:
                return rule.words[rule.words.index(word)]  # the same object that defaults are compared with
        elif rule.is_decoded_first:
            self.mismatch(_describe(value), (), "string")
            return old
        quoted = json.dumps(raw, ensure_ascii=False)
        self.complain(rule.complaint.replace("{quoted}", quoted).replace("{raw}", raw))
        return old

    def bind_moment(self, value: Any, old: Any, path: Path) -> Any:
        if _describe(value) != "string":
            self.mismatch(_describe(value), path, "time.Time")
            return old
        try:
            return normalise_time(_clean(value))
        except (ValueError, OverflowError) as error:
            self.complain(str(error))
            return old


def _raw(value: Any) -> str:
    """The value nearly as it was written."""
    if isinstance(value, WrittenNumber):
        return value
    return json.dumps(dict(value) if isinstance(value, Pairs) else value, ensure_ascii=False)


def _integer(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if len(digits) <= 20 and digits.isdecimal() else None


def _clean(text: str) -> str:
    """Half a surrogate pair cannot be encoded; Go reads it as a replacement character."""
    return text if text.isascii() else HALF_PAIR.sub("\ufffd", text)


def _empty(kind: Any) -> Any:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return kind()


def _describe(value: Any) -> str:
    if isinstance(value, WrittenNumber):
        return "number"
    if isinstance(value, Pairs):
        return "object"
    return {str: "string", bool: "bool", list: "array"}.get(type(value), "null")


def _go_type(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        rule = get_args(kind)[1]
        return rule.go_name if isinstance(rule, Number) else "string"
    if get_origin(kind) is list:
        (item,) = get_args(kind)
        pointer = "*" if getattr(item, "__name__", "") == "StreamSource" else ""
        return f"[]{pointer}{_go_type(item)}"
    if get_origin(kind) is dict:
        return "map[string]string"
    if issubclass(kind, Wire):
        return f"server.{kind.go_name or kind.__name__}"
    return "string" if kind is str else "bool"


def unmarshal(body: bytes, kind: type[WireType]) -> WireType:
    """The value, or ApiError `invalid_json`."""
    if not body.strip():
        raise api_error("invalid_json", err=END_OF_INPUT)
    try:
        return decode(body, kind, strict=False)
    except ApiError as error:
        raise api_error("invalid_json", err=plain_reason(error)) from None


def plain_reason(error: ApiError) -> str:
    reason = error.description.removeprefix(PREFIX)
    return END_OF_INPUT if reason == "unexpected EOF" else re.sub(r" at offset \d+$", "", reason)
