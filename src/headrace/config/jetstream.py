"""Reads the `jetstream` directive: a switch, or a block with the storage directory and the limits of streams.

Fields about clusters are checked and then have no effect, because there is only one server. Encryption is
refused: streams that should be encrypted and are not would be worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from headrace.config.durations import parse_duration
from headrace.config.options import SYNC_ALWAYS, JetStreamLimits
from headrace.config.problems import Problems
from headrace.config.unsupported import unsupported_message
from headrace.config.values import KIND_NAMES, Value

Changes = dict[str, object]
Reader = Callable[[str, Value, Problems], Changes]

SIZE_SUFFIXES = {"K": 10, "M": 20, "G": 30, "T": 40}
FEWEST_CONCURRENT_IO, MOST_CONCURRENT_IO = 4, 8192
ENCRYPTION = "encrypted streams"
_DIGITS = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def read_jetstream(value: Value, problems: Problems, *, store_dir_given: bool) -> Changes:
    """The changes to Options. Errors in a block go to `problems`; a wrong switch is raised."""
    plain = value.plain
    if isinstance(plain, dict):
        return _read_block(plain, problems, store_dir_given=store_dir_given)
    if isinstance(plain, str):
        switch = plain.lower()
        if switch not in ("enabled", "enable", "disabled", "disable"):
            raise value.error(f"Expected 'enabled' or 'disabled' for string value, got '{plain}'")
        return {"jetstream": switch.startswith("enable")}
    if isinstance(plain, bool):
        return {"jetstream": plain}
    raise value.error(f"Expected map, bool or string to define JetStream, got {KIND_NAMES[type(plain)]}")


def _read_block(block: dict[str, Value], problems: Problems, *, store_dir_given: bool) -> Changes:
    changes: Changes = {"jetstream": True}
    for name, value in block.items():
        with problems.collecting():
            reader = FIELDS.get(name.lower())
            if reader is None:
                if not value.used_as_variable:
                    raise value.error(f'unknown field "{name}"')
                continue
            if reader is _read_store_dir and (store_dir_given or "store_dir" in changes):
                raise value.error("Duplicate 'store_dir' configuration")
            changes.update(reader(name.lower(), value, problems))
    return changes


# Readers of single fields: the name in lower case, the value, where to warn.


def _switch(option: str) -> Reader:
    return lambda name, value, problems: {option: value.boolean()}


def _text(option: str) -> Reader:
    return lambda name, value, problems: {option: value.string()}


def _read_store_dir(name: str, value: Value, problems: Problems) -> Changes:
    return {"store_dir": value.string()}


def _read_unique_tag(name: str, value: Value, problems: Problems) -> Changes:
    return {"jetstream_unique_tag": value.string().strip().lower()}


def _read_sync(name: str, value: Value, problems: Problems) -> Changes:
    """How long after its acknowledgement a message may be synced; "always" means before it."""
    plain = value.plain
    if isinstance(plain, str) and plain.lower() == "always":
        return {"sync_interval": SYNC_ALWAYS}
    if type(plain) is int:
        problems.warn(value, name, f"{name} should be converted to a duration")
        return {"sync_interval": float(plain)}
    seconds = _duration(name, value)
    if seconds < 0:
        raise value.error(f"{name} can not be negative")
    return {"sync_interval": seconds}


def _duration(name: str, value: Value) -> float:
    try:
        return parse_duration(value.string())
    except ValueError as error:
        raise value.error(f"error parsing {name}: {error}") from None


def _size(option: str, called: str = "") -> Reader:
    """A number of bytes; as a string it ends in K, M, G or T, which are powers of 1024 here."""

    def read(name: str, value: Value, problems: Problems) -> Changes:
        return {option: _bytes(called or name, value)} if option else _checked(_bytes(name, value))

    return read


def _checked(size: int) -> Changes:
    """For fields that have no effect here."""
    return {}


def _bytes(name: str, value: Value) -> int:
    plain = value.plain
    if type(plain) is int:
        return plain
    if not isinstance(plain, str):
        raise value.error(f"{name} must be a number of bytes or a string")
    if not plain:
        return 0
    digits, suffix = plain[:-1], plain[-1]
    if not _DIGITS.fullmatch(digits):
        raise value.error(f'{name} "{plain[:40]}" is not a size')
    if suffix not in SIZE_SUFFIXES:
        raise value.error(f"{name} sizes defined as strings must end in K, M, G, T")
    return int(digits) << SIZE_SUFFIXES[suffix]


def _number(option: str = "") -> Reader:
    def read(name: str, value: Value, problems: Problems) -> Changes:
        if type(value.plain) is not int:
            raise value.error(f'Expected a parseable size for "{name}", got {KIND_NAMES[type(value.plain)]}')
        return {option: value.plain} if option else {}

    return read


def _not_negative(name: str, value: Value, problems: Problems) -> Changes:
    """Of the cluster's own log: checked, no effect."""
    if _bytes(name, value) < 0:
        raise value.error(f'Expected an absolute size for "{name}", got {value.plain}')
    return {}


def _read_concurrent_io(name: str, value: Value, problems: Problems) -> Changes:
    plain = value.plain
    if type(plain) is not int or not FEWEST_CONCURRENT_IO <= plain <= MOST_CONCURRENT_IO:
        raise value.error(
            f'Expected an absolute size for "{name}" between {FEWEST_CONCURRENT_IO} and {MOST_CONCURRENT_IO}'
        )
    return {}


def _ignored_text(name: str, value: Value, problems: Problems) -> Changes:
    value.string()
    return {}


def _ignored_switch(name: str, value: Value, problems: Problems) -> Changes:
    value.boolean()
    return {}


def _refuse_encryption(name: str, value: Value, problems: Problems) -> Changes:
    raise value.error(unsupported_message(f"jetstream {name}", ENCRYPTION))


# The limits block


def _read_limits(name: str, value: Value, problems: Problems) -> Changes:
    if not isinstance(value.plain, dict):
        raise value.error(f"Expected a map to define JetStreamLimits, got {KIND_NAMES[type(value.plain)]}")
    changes = _read_fields(value.plain, LIMITS, problems)
    return {"jetstream_limits": msgspec.convert(changes, JetStreamLimits)}


def _read_batch(name: str, value: Value, problems: Problems) -> Changes:
    if not isinstance(value.plain, dict):
        raise value.error(f"Expected a map to define batch limits, got {KIND_NAMES[type(value.plain)]}")
    return _read_fields(value.plain, BATCH_LIMITS, problems)


def _read_fields(block: dict[str, Value], fields: dict[str, Reader], problems: Problems) -> Changes:
    changes: Changes = {}
    for name, value in block.items():
        with problems.collecting():
            reader = fields.get(name.lower())
            if reader is not None:
                changes.update(reader(name.lower(), value, problems))
            elif not value.used_as_variable:
                raise value.error(f'unknown field "{name}"')
    return changes


def _limit(option: str) -> Reader:
    return lambda name, value, problems: {option: value.integer()}


def _time_limit(option: str) -> Reader:
    return lambda name, value, problems: {option: _duration(name, value)}


LIMITS: dict[str, Reader] = {
    "max_ack_pending": _limit("max_ack_pending"),
    "max_ha_assets": _limit("max_ha_assets"),
    "max_request_batch": _limit("max_request_batch"),
    "duplicate_window": _time_limit("duplicate_window"),
    "default_max_consumers": _limit("default_max_consumers"),
    "batch": _read_batch,
}
BATCH_LIMITS: dict[str, Reader] = {
    "max_inflight_per_stream": _limit("max_batch_inflight_per_stream"),
    "max_inflight_total": _limit("max_batch_inflight_total"),
    "max_msgs": _limit("max_batch_size"),
    "timeout": _time_limit("max_batch_timeout"),
}
FIELDS: dict[str, Reader] = {
    "enable": _switch("jetstream"),
    "enabled": _switch("jetstream"),
    "strict": _switch("jetstream_strict"),
    "store": _read_store_dir,
    "store_dir": _read_store_dir,
    "storedir": _read_store_dir,
    "sync": _read_sync,
    "sync_interval": _read_sync,
    "max_memory_store": _size("jetstream_max_memory", "max_mem_store"),
    "max_mem_store": _size("jetstream_max_memory", "max_mem_store"),
    "max_mem": _size("jetstream_max_memory", "max_mem_store"),
    "max_file_store": _size("jetstream_max_store", "max_file_store"),
    "max_file": _size("jetstream_max_store", "max_file_store"),
    "domain": _text("jetstream_domain"),
    "unique_tag": _read_unique_tag,
    "limits": _read_limits,
    # nats-server refuses messages of a stream that falls behind; here publishers wait.
    "max_buffered_size": _size(""),
    "max_buffered_msgs": _number(),
    "request_queue_limit": _number("jetstream_request_queue_limit"),
    "info_queue_limit": _number(),
    "max_outstanding_catchup": _size(""),
    "meta_compact": _not_negative,
    "meta_compact_size": _not_negative,
    "meta_compact_sync": _ignored_switch,
    "max_concurrent_io": _read_concurrent_io,
    "extension_hint": _ignored_text,
    "key": _refuse_encryption,
    "ek": _refuse_encryption,
    "encryption_key": _refuse_encryption,
    "prev_key": _refuse_encryption,
    "prev_ek": _refuse_encryption,
    "prev_encryption_key": _refuse_encryption,
    "cipher": _refuse_encryption,
    "tpm": _refuse_encryption,
}
