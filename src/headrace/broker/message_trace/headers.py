"""The headers that ask for a trace of a message, as nats-server reads them."""

from __future__ import annotations

import random
from collections.abc import Mapping

FIRST_LINE = b"NATS/1.0\r\n"
LINE_END = b"\r\n"
SPACES = b" \t"
DESTINATION = "Nats-Trace-Dest"
ONLY = "Nats-Trace-Only"
ORIGIN_ACCOUNT = "Nats-Trace-Origin-Account"
ACCEPT_ENCODING = "Accept-Encoding"
GZIP, IDENTITY = b"gzip", b"identity"
DISABLED = "trace disabled"
"""As the destination: whoever gets the message next makes no trace of it."""
PARENT = "traceparent"
SAMPLED = 1

TraceHeaders = dict[str, list[str]]


def read_trace_headers(block: bytes) -> tuple[TraceHeaders, bool] | None:
    """All headers, and whether a traceparent is all that asks for a trace. None: nothing does."""
    if not block.startswith(FIRST_LINE):
        return None
    found: TraceHeaders = {}
    has_parent = False
    at = len(FIRST_LINE)
    while (colon := block.find(b":", at)) >= 0:
        end = block.find(LINE_END, colon)
        if end < 0:
            break
        name, value = block[at:colon].decode(errors="replace"), block[colon + 1 : end].strip(SPACES)
        if name and value:
            found.setdefault(name, []).append(value.decode(errors="replace"))
            has_parent = has_parent or (name.lower() == PARENT and is_sampled_parent(found[name][-1]))
        at = end + len(LINE_END)
    if found.get(DESTINATION, [""])[0] == DISABLED or not (DESTINATION in found or has_parent):
        return None
    return found, DESTINATION not in found


def is_sampled_parent(value: str) -> bool:
    """Whether the flags at the end of a W3C traceparent say that it is recorded."""
    parts = value.split("-")
    if len(parts) != 4 or len(parts[3]) != 2:
        return False
    try:
        flags = int(parts[3], 16)
    except ValueError:
        return False
    return flags < 128 and flags & SAMPLED == SAMPLED  # nats-server reads a signed byte


def is_only_traced(headers: Mapping[str, list[str]]) -> bool:
    return headers.get(ONLY, [""])[0].lower() in ("1", "true", "on")


def choose_encoding(headers: Mapping[str, list[str]]) -> bytes:
    """How the trace is compressed; empty: its receiver did not say anything about that."""
    accepted = headers.get(ACCEPT_ENCODING, [""])[0].lower()
    if not accepted:
        return b""
    return GZIP if "gzip" in accepted else IDENTITY  # snappy, which nats-server prefers, is not there


def is_drawn(percent: int) -> bool:
    return percent >= 100 or random.randrange(100) < percent


def with_destination(block: bytes, destination: str) -> bytes:
    """The headers with another destination, at their end."""
    name = DESTINATION.encode() + b":"
    lines = [line for line in block.split(LINE_END)[:-2] if not line.startswith(name)]
    return LINE_END.join([*lines, name + b" " + destination.encode(), b"", b""])
