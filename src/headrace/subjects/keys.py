"""Keys of key-value buckets: what clients and tools of NATS accept as one, which is less than a subject."""

from __future__ import annotations

import re

KEY_RULE = "only letters, digits and - / _ = and . between two others"
_KEY = re.compile(r"[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*")


def is_valid_key(key: str) -> bool:
    return _KEY.fullmatch(key) is not None
