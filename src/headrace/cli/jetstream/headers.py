"""The header block of a stored message, as text."""

from __future__ import annotations


def parse_headers(block: bytes) -> dict[str, str]:
    """Names and values of `NATS/1.0\\r\\nName: value\\r\\n\\r\\n`; of a repeated name the first value."""
    headers: dict[str, str] = {}
    for line in block.decode(errors="replace").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers.setdefault(name, value.strip())
    return headers
