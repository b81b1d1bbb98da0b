"""Reads `msg_trace` of an account: where traces of messages with a `traceparent` go, and of how many.

accounts { A { msg_trace: { dest: "traces", sampling: "10%" } } }
"""

from __future__ import annotations

import re

from headrace.config.identity import TraceOptions
from headrace.config.problems import Problems
from headrace.config.values import KIND_NAMES, Value
from headrace.subjects import grammar

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def read_message_trace(field: str, value: Value, problems: Problems) -> TraceOptions:
    """`field` is the name that the file has for it. A sampling without a destination is a warning."""
    plain = value.plain
    if isinstance(plain, str):
        return TraceOptions(_read_destination(field, value))
    if not isinstance(plain, dict):
        got = KIND_NAMES[type(plain)]
        raise value.error(
            f'Expected account message trace "{field}" to be a string or a map/struct, got {got}'
        )
    destination, percent = "", 0
    for name, entry in plain.items():
        lowered = name.lower()
        if lowered == "dest":
            destination = _read_destination(name, entry)
        elif lowered == "sampling":
            percent = _read_sampling(name, entry)
        elif not entry.used_as_variable:
            raise entry.error(f'Unknown field "{name}" parsing account message trace map/struct "{field}"')
    if percent and not destination:
        problems.warnings.append(
            value.error("Trace destination sampling ignored since no destination was set")
        )
    return TraceOptions(destination, percent or 100)


def _read_destination(name: str, value: Value) -> str:
    if not isinstance(value.plain, str):
        raise value.error(f'Field "{name}" should be a string, got {KIND_NAMES[type(value.plain)]}')
    if not grammar.is_valid_publish_subject(value.plain):
        raise value.error(f'Trace destination "{value.plain}" is not valid')
    return value.plain


def _read_sampling(name: str, value: Value) -> int:
    plain = value.plain
    if type(plain) is int:
        percent = plain
    elif isinstance(plain, str):
        if _INTEGER.fullmatch(plain.removesuffix("%")) is None:
            raise value.error(f'Invalid trace destination sampling value "{plain}"')
        percent = int(plain.removesuffix("%"))
    else:
        raise value.error(
            f'Trace destination sampling field "{name}" should be an integer or a percentage, '
            f"got {KIND_NAMES[type(plain)]}"
        )
    if not 1 <= percent <= 100:
        raise value.error(f"Trace destination sampling value {percent} is invalid, needs to be [1..100]")
    return percent
