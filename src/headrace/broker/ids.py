"""Random names of the form that nats-server gives to events and replies."""

from __future__ import annotations

import hashlib
import secrets

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def random_id(length: int = 22) -> str:
    """An id as nats-server makes them: base 62, 22 characters for events and pins."""
    return "".join(secrets.choice(DIGITS) for _ in range(length))


def hash_of_name(name: str, length: int = 8) -> str:
    """A short name for a server, the same each time."""
    return "".join(DIGITS[byte % len(DIGITS)] for byte in hashlib.sha256(name.encode()).digest()[:length])
