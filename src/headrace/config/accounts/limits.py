"""Reads the limits of an account: what its streams may use (`jetstream`), and its clients (`limits`)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headrace.config.identity import AccountLimits, ClientLimits
from headrace.config.problems import Problems
from headrace.config.values import KIND_NAMES, Value

Changes = dict[str, object]
Reader = Callable[[str, Value], Changes]


def read_account_jetstream(value: Value, problems: Problems) -> AccountLimits | None:
    """None: it has no streams. Errors in the limits go to `problems`."""
    plain = value.plain
    if isinstance(plain, dict):
        limits: Changes = {}
        for name, entry in plain.items():
            with problems.collecting():
                reader = ACCOUNT_JETSTREAM.get(name.lower())
                if reader is not None:
                    limits.update(reader(name, entry))
                elif not entry.used_as_variable:
                    raise entry.error(f'unknown field "{name}"')
        return msgspec.convert(limits, AccountLimits)
    if isinstance(plain, str):
        switch = plain.lower()
        if switch not in ("enabled", "enable", "disabled", "disable"):
            raise value.error(f"Expected 'enabled' or 'disabled' for string value, got '{plain}'")
        return AccountLimits() if switch.startswith("enable") else None
    if isinstance(plain, bool):
        return AccountLimits() if plain else None
    raise value.error(f"Expected map, bool or string to define JetStream, got {KIND_NAMES[type(plain)]}")


def _number(limit: str) -> Reader:
    def read(name: str, value: Value) -> Changes:
        if type(value.plain) is not int:
            raise value.error(f'Expected a parseable size for "{name}", got {KIND_NAMES[type(value.plain)]}')
        return {limit: value.plain}

    return read


def _switch(limit: str) -> Reader:
    def read(name: str, value: Value) -> Changes:
        if type(value.plain) is not bool:
            raise value.error(f'Expected a parseable bool for "{name}", got {KIND_NAMES[type(value.plain)]}')
        return {limit: value.plain}

    return read


def _read_cluster_traffic(name: str, value: Value) -> Changes:
    """Of clusters: checked, no effect."""
    if value.plain not in ("", "system", "owner"):
        raise value.error(f"Expected 'system' or 'owner' string value for \"{name}\"")
    return {}


ACCOUNT_JETSTREAM: dict[str, Reader] = {
    **dict.fromkeys(("max_memory", "max_mem", "mem", "memory"), _number("max_memory")),
    **dict.fromkeys(("max_store", "max_file", "max_disk", "store", "disk"), _number("max_storage")),
    **dict.fromkeys(("max_streams", "streams"), _number("max_streams")),
    **dict.fromkeys(("max_consumers", "consumers"), _number("max_consumers")),
    **dict.fromkeys(("max_bytes_required", "max_stream_bytes", "max_bytes"), _switch("max_bytes_required")),
    **dict.fromkeys(("mem_max_stream_bytes", "memory_max_stream_bytes"), _number("memory_max_stream_bytes")),
    **dict.fromkeys(("disk_max_stream_bytes", "store_max_stream_bytes"), _number("storage_max_stream_bytes")),
    "max_ack_pending": _number("max_ack_pending"),
    "cluster_traffic": _read_cluster_traffic,
}

CLIENT_LIMITS = {
    "max_connections": "max_connections",
    "max_conn": "max_connections",
    "max_subscriptions": "max_subscriptions",
    "max_subs": "max_subscriptions",
    "max_payload": "max_payload",
    "max_pay": "max_payload",
    "max_leafnodes": "max_leafnodes",
    "max_leafs": "max_leafnodes",
}


def read_client_limits(value: Value, problems: Problems) -> ClientLimits:
    """Errors in a field go to `problems`."""
    if not isinstance(value.plain, dict):
        raise value.error(f"Expected account limits to be a map/struct, got {KIND_NAMES[type(value.plain)]}")
    limits: dict[str, int] = {}
    for name, entry in value.plain.items():
        with problems.collecting():
            if limit := CLIENT_LIMITS.get(name.lower()):
                limits[limit] = to_int32(entry.integer())
            elif not entry.used_as_variable:
                raise entry.error(f'Unknown field "{name}" parsing account limits')
    return ClientLimits(**limits)


def to_int32(number: int) -> int:
    """What is left of a number in 32 bits, as in nats-server: 2^32 - 1 is -1, no limit."""
    return (number + 2**31) % 2**32 - 2**31
