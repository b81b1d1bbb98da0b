"""The digest of an object: `SHA-256=` and base64, as ADR-20 has it."""

from __future__ import annotations

import base64
import binascii
import hashlib

KIND = "SHA-256="


class Digest:
    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, data: bytes | memoryview) -> None:
        self._hash.update(data)

    @property
    def text(self) -> str:
        return KIND + base64.urlsafe_b64encode(self._hash.digest()).decode()

    def matches(self, text: str) -> bool:
        """Whether it is the digest in a description; clients differ in capitals and in padding."""
        return decode(text) == self._hash.digest()


def decode(text: str) -> bytes:
    """Empty if it is not a digest."""
    if text[: len(KIND)].upper() != KIND:
        return b""
    try:
        encoded = text[len(KIND) :].rstrip("=")
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except (binascii.Error, ValueError):
        return b""
