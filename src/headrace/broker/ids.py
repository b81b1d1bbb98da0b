"""Random names of the form that nats-server gives to events and replies."""

from __future__ import annotations

import hashlib
import os

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
DIGIT_OF_BYTE = (DIGITS * 5)[:256].encode()
EXCESS_BYTES = bytes(range(256 // len(DIGITS) * len(DIGITS), 256))
"""Left out, so that all digits are equally likely."""


def random_id(length: int = 22) -> str:
    """An id as nats-server makes them: base 62, 22 characters for events and pins."""
    digits = b""
    while len(digits) < length:
        digits += os.urandom(length - len(digits)).translate(DIGIT_OF_BYTE, EXCESS_BYTES)
    return digits.decode()


def hash_of_name(name: str, length: int = 8) -> str:
    """A short name for a server, the same each time."""
    return "".join(DIGITS[byte % len(DIGITS)] for byte in hashlib.sha256(name.encode()).digest()[:length])
