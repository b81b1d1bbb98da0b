"""The functions that a transform's destination may call, one per token: `{{wildcard(1)}}`, `{{split(1,-)}}` …

`parse_token` reads one destination token and returns what to do there: a `Call`, or None for a literal token.
Lengths count bytes, as on the wire. A token that looks like a call but is not one raises `TransformError`
with the text of nats-server, because clients see it in the error of a stream's configuration.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from headrace.errors import HeadraceError

_INVALID = "invalid mapping destination"
INVALID_TRANSFORM = f"{_INVALID}: invalid transform"
UNKNOWN_FUNCTION = f"{_INVALID}: unknown function"
OUT_OF_RANGE = f"{_INVALID}: wildcard index out of range"
NOT_ENOUGH_ARGUMENTS = f"{_INVALID}: not enough arguments passed to the function"
INVALID_ARGUMENT = f"{_INVALID}: function argument is invalid or in the wrong format"
NOT_REVERSIBLE = f"{_INVALID}: the only mapping function allowed for import transforms is {{{{Wildcard()}}}}"
WILDCARDS_LEFT = f"{_INVALID}: not using all of the token wildcard(s)"
TOO_MANY_ARGUMENTS = f"{_INVALID}: too many arguments passed to the function"

_INT32_MAX = 2**31 - 1
_SEPARATOR = re.compile(r",\s*", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FNV_OFFSET, _FNV_PRIME = 2166136261, 16777619


class TransformError(HeadraceError):
    """An invalid source or destination; the message is that of nats-server."""


def destination_error(text: str, token: str) -> TransformError:
    return TransformError(f"{text} in {token}" if token else text)


@dataclass(frozen=True)
class Call:
    """One function of a destination: its name, which wildcards it reads (from 1), and its other argument."""

    name: str
    wildcards: tuple[int, ...] = ()
    number: int = -1
    delimiter: bytes = b""


def looks_like_call(token: str) -> bool:
    return len(token) > 4 and token.startswith("{{") and token.endswith("}}")


def parse_token(token: str) -> Call | None:
    if len(token) > 1 and token[0] == "$":
        index = _parse_integer(token[1:])  # others start with $, too, as $JS, and stay as they are
        return None if index is None else Call("wildcard", (index,))
    if not looks_like_call(token):
        return None
    for name, pattern, read in _FUNCTIONS:
        found = pattern.search(token)
        if found is not None:
            return read(name, token, _SEPARATOR.split(found[1]))
    raise destination_error(UNKNOWN_FUNCTION, token)


def is_known(token: str) -> bool:
    """Whether a token that looks like a call names a function that exists; its arguments are not read."""
    return any(pattern.search(token) for _, pattern, _ in _FUNCTIONS)


def _read_wildcard(name: str, token: str, arguments: list[str]) -> Call:
    if arguments == [""]:
        raise destination_error(NOT_ENOUGH_ARGUMENTS, token)
    if len(arguments) > 1:
        raise destination_error(TOO_MANY_ARGUMENTS, token)
    return Call(name, (_integer(arguments[0], token),))


def _read_partition(name: str, token: str, arguments: list[str]) -> Call:
    buckets = _integer(arguments[0], token, limit=_INT32_MAX)
    return Call(name, tuple(_integer(text, token) for text in arguments[1:]), _as_int32(buckets))


def _read_random(name: str, token: str, arguments: list[str]) -> Call:
    if len(arguments) != 1:
        raise destination_error(NOT_ENOUGH_ARGUMENTS, token)
    return Call(name, (), _as_int32(_integer(arguments[0], token, limit=_INT32_MAX)))


def _read_wildcard_and_number(name: str, token: str, arguments: list[str]) -> Call:
    _check_two(token, arguments)
    index = _integer(arguments[0], token)
    number = _integer(arguments[1], token, limit=_INT32_MAX)
    if number < -_INT32_MAX - 1:
        raise destination_error(INVALID_ARGUMENT, token)
    return Call(name, (index,), number)


def _read_split(name: str, token: str, arguments: list[str]) -> Call:
    _check_two(token, arguments)
    index = _integer(arguments[0], token)
    if " " in arguments[1] or "." in arguments[1]:
        raise destination_error(INVALID_ARGUMENT, token)
    return Call(name, (index,), -1, arguments[1].encode("utf-8", "surrogateescape"))


def _check_two(token: str, arguments: list[str]) -> None:
    if len(arguments) != 2:
        raise destination_error(NOT_ENOUGH_ARGUMENTS if len(arguments) < 2 else TOO_MANY_ARGUMENTS, token)


def _integer(text: str, token: str, *, limit: int = 2**63 - 1) -> int:
    value = _parse_integer(text.strip(" "))
    if value is None or value > limit:
        raise destination_error(INVALID_ARGUMENT, token)
    return value


def _parse_integer(text: str) -> int | None:
    if _INTEGER.fullmatch(text) is None or len(text) > 20:
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def _as_int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _function(name: str) -> re.Pattern[str]:
    """A call of the function, with its arguments as group 1. Words may be capitalized: SplitFromLeft."""
    words = re.split("(?=from)|(?<=from)", name)
    spelled = "".join(f"[{word[0]}{word[0].upper()}]{word[1:]}" for word in words if word)
    return re.compile(r"{{\s*" + spelled + r"\s*\((.*)\)\s*}}", re.ASCII)


_FUNCTIONS: tuple[tuple[str, re.Pattern[str], Callable[[str, str, list[str]], Call]], ...] = tuple(
    (name, _function(name), read)
    for name, read in (
        ("wildcard", _read_wildcard),
        ("partition", _read_partition),
        ("splitfromleft", _read_wildcard_and_number),
        ("splitfromright", _read_wildcard_and_number),
        ("slicefromleft", _read_wildcard_and_number),
        ("slicefromright", _read_wildcard_and_number),
        ("right", _read_wildcard_and_number),
        ("left", _read_wildcard_and_number),
        ("split", _read_split),
        ("random", _read_random),
    )
)


def apply_call(call: Call, tokens: list[bytes], places: tuple[int, ...]) -> bytes:
    """The result of this call; `places` are the indexes of the tokens that match the wildcards."""
    if call.name == "partition":
        key = b"".join(tokens[place] for place in places) if places else b".".join(tokens)
        return _partition(key, call.number)
    if call.name == "random":
        ceiling = abs(call.number)
        return b"%d" % (random.getrandbits(31) % ceiling) if ceiling else b"0"
    token = tokens[places[0]]
    if call.name == "wildcard":
        return token
    if call.name == "split":
        return _split(token, call.delimiter)
    if not 0 < call.number < len(token):  # too short to split: it stays as it is
        return token
    return _CUTS[call.name](token, call.number)


def _partition(key: bytes, buckets: int) -> bytes:
    """The FNV-1a hash, as every NATS server and client computes it."""
    if buckets == 0:
        return b"0"
    value = _FNV_OFFSET
    for byte in key:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return b"%d" % (value % (buckets & 0xFFFFFFFF))


def _split(token: bytes, delimiter: bytes) -> bytes:
    if delimiter:
        parts = token.split(delimiter)
    else:
        parts = [part.encode("utf-8", "surrogateescape") for part in token.decode("utf-8", "surrogateescape")]
    written = []
    for place, part in enumerate(parts):
        written.append(part)
        if place + 1 < len(parts) and parts[place + 1] and not (place == 0 and not part):
            written.append(b".")
    return b"".join(written)


def _slices(token: bytes, start: int, size: int) -> list[bytes]:
    return [token[place : place + size] for place in range(start, len(token), size)]


def _slice_from_right(token: bytes, size: int) -> bytes:
    rest = len(token) % size
    return b".".join([token[:rest]] * (rest > 0) + _slices(token, rest, size))


_CUTS: dict[str, Callable[[bytes, int], bytes]] = {
    "splitfromleft": lambda token, place: token[:place] + b"." + token[place:],
    "splitfromright": lambda token, place: token[:-place] + b"." + token[-place:],
    "slicefromleft": lambda token, size: b".".join(_slices(token, 0, size)),
    "slicefromright": _slice_from_right,
    "left": lambda token, size: token[:size],
    "right": lambda token, size: token[-size:],
}
