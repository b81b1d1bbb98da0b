"""Whole numbers of any length as decimal text.

Python itself refuses more than some thousand digits at once.
"""

from __future__ import annotations

import re

_INTEGER = re.compile(rb"[+-]?[0-9]+")
_DIGITS = 4000
_CHUNK = 10**_DIGITS


def parse_number(text: bytes) -> int | None:
    """None if it is no decimal number."""
    if _INTEGER.fullmatch(text) is None:
        return None
    digits = text.lstrip(b"+-")
    value = 0
    for start in range(0, len(digits), _DIGITS):
        part = digits[start : start + _DIGITS]
        value = value * 10 ** len(part) + int(part)
    return -value if text.startswith(b"-") else value


def format_number(value: int) -> bytes:
    sign, rest = (b"-", -value) if value < 0 else (b"", value)
    chunks = []
    while rest >= _CHUNK:
        rest, chunk = divmod(rest, _CHUNK)
        chunks.append(b"%0*d" % (_DIGITS, chunk))
    return sign + b"%d" % rest + b"".join(reversed(chunks))
