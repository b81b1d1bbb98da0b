"""One object for equal values of many connections: what they said in CONNECT, where they are from.

Not `sys.intern`: Python 3.12 keeps what it has interned for ever, and clients choose these texts.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import TypeVar

Value = TypeVar("Value", bound=Hashable)

MOST_VALUES = 256


@lru_cache(maxsize=MOST_VALUES)
def _first_of(value: Hashable) -> Hashable:
    return value


def share(value: Value) -> Value:
    """An equal value that others have, or this one. Values must be immutable, and without secrets."""
    same: Value = _first_of(value)  # type: ignore[assignment]
    return same
