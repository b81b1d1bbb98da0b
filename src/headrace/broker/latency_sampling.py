"""Which requests to an exported service are measured: a share of them, or those whose headers ask for it.

Headers of tracing systems say so: Uber-Trace-Id (Jaeger), B3 and X-B3-... (Zipkin), Traceparent (W3C).
"""

from __future__ import annotations

import random

from headrace.config.identity import Latency

Headers = dict[str, list[str]]

_B3_HEADERS = ("X-B3-Sampled", "X-B3-Traceid", "X-B3-Parentspanid", "X-B3-Spanid")


def is_sampled(latency: Latency | None, headers: bytes) -> tuple[bool, Headers | None]:
    """Whether to measure a request, and the headers that asked for it."""
    if latency is None:
        return False, None
    if latency.percent >= 100 or (latency.percent > 0 and random.randrange(100) <= latency.percent):
        return True, None
    return _asked_for(read_headers(headers)) if headers else (False, None)


def read_headers(headers: bytes) -> Headers:
    """By canonical name, as Go reads them."""
    found: Headers = {}
    for line in headers.split(b"\r\n")[1:]:
        name, separator, value = line.partition(b":")
        if separator:
            key = "-".join(part.capitalize() for part in name.decode(errors="replace").split("-"))
            found.setdefault(key, []).append(value.strip().decode(errors="replace"))
    return found


def _asked_for(headers: Headers) -> tuple[bool, Headers | None]:
    if uber := headers.get("Uber-Trace-Id"):
        flags = uber[0].split(":")
        if len(flags) == 4 and _is_odd(flags[3][:1] if len(flags[3]) == 1 else flags[3][1:2], flags[3]):
            context = {name: value for name, value in headers.items() if name.startswith("Uberctx-")}
            return True, {"Uber-Trace-Id": uber, **context}
        return False, None
    sampled = headers.get("X-B3-Sampled", [""])[0]
    if sampled == "0":
        return False, None
    if sampled == "1" or "X-B3-Traceid" in headers:
        return True, {name: headers[name] for name in _B3_HEADERS if name in headers}
    if b3 := headers.get("B3"):
        parts = b3[0].split("-")
        is_denied = parts[2] == "0" if len(parts) > 2 else parts == ["0"]
        return (False, None) if is_denied else (True, {"B3": b3})
    if parent := headers.get("Traceparent"):
        parts = parent[0].split("-")
        if len(parts) == 4 and len(parts[3]) == 2 and _is_odd(parts[3][1], parts[3]):
            state = {"Tracestate": headers["Tracestate"]} if "Tracestate" in headers else {}
            return True, {"Traceparent": parent, **state}
    return False, None


def _is_odd(digit: str, flags: str) -> bool:
    """Whether the last of one or two hexadecimal digits has its lowest bit set."""
    return len(flags) in (1, 2) and digit in "13579bdfBDF" and digit != ""
