"""Times and strings as Go writes them: clients, logs and monitoring pages show both.

Durations are in config/durations.py, the times of the JetStream API in streams/formats.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

NANOSECONDS = 1_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_TIME = round((datetime(1, 1, 1, tzinfo=UTC) - EPOCH).total_seconds()) * NANOSECONDS
LAST_TIME = round((datetime.max.replace(tzinfo=UTC) - EPOCH).total_seconds()) * NANOSECONDS - 1
"""Nanoseconds since 1970 of the first and the last time whose year has four digits."""
ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}


def format_time(nanoseconds: int) -> str:
    """RFC 3339 in UTC, down to the nanosecond, without trailing zeros: `2026-11-15T20:38:06.13572158Z`.

    A time outside of the years with four digits becomes the first or the last one of those.
    """
    nanoseconds = min(max(nanoseconds, FIRST_TIME), LAST_TIME)
    seconds, fraction = divmod(nanoseconds, NANOSECONDS)
    return format_seconds(seconds) + format_fraction(fraction) + "Z"


@lru_cache(maxsize=256)
def format_seconds(seconds: int) -> str:
    """Most times that are written are of the second that is now: an answer of the API has several."""
    text = (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return text.rjust(19, "0")  # strftime does not pad years before 1000


def format_fraction(nanoseconds: int) -> str:
    """The fraction of a second, with the dot; empty if it is 0."""
    return f".{nanoseconds:09}".rstrip("0") if nanoseconds else ""


def quote(text: str | bytes) -> str:
    """A string literal, as %q prints it. It is always one line, whatever the text is.

    A byte that is not UTF-8 is a lone surrogate in a string (`surrogateescape`).
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    return f'"{"".join(map(_quote_character, text))}"'


def quote_ascii(text: str) -> str:
    """A string literal as in the errors of Go's time package, which escapes every byte outside of ASCII."""
    return f'"{"".join(map(_quote_ascii_character, text))}"'


def _quote_ascii_character(character: str) -> str:
    if character in ('"', "\\"):
        return "\\" + character
    if " " <= character <= "\x7f":
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "replace"))


def _quote_character(character: str) -> str:
    code = ord(character)
    if character in ESCAPES:
        return ESCAPES[character]
    if character.isprintable():
        return character
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
