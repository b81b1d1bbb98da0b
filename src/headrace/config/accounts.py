"""Reads the `accounts` directive: one account, its users and what its streams may use.

    accounts { A { users: [{user: foo, password: bar}], jetstream: { max_file: 1GB, max_streams: 10 } } }

There can be one account, which then replaces the global one. Two would have to be isolated from each other,
so a second one is refused, and so is an account without users: its clients would be in the global account.
The system account may be listed if nobody can log in to it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headrace.config.authorization import check_names, read_users
from headrace.config.options import GLOBAL_ACCOUNT, AccountLimits
from headrace.config.problems import Problems
from headrace.config.unsupported import UNSUPPORTED_ACCOUNT, unsupported_message
from headrace.config.values import KIND_NAMES, Value

Changes = dict[str, object]
Reader = Callable[[str, Value], Changes]

SYSTEM_ACCOUNT = "$SYS"
ONE_ACCOUNT = "this version of Headrace supports one account and does not support more yet"


def read_accounts(value: Value, problems: Problems) -> Changes:
    """The changes to Options. Errors in the account go to `problems`."""
    if not isinstance(value.plain, dict):
        raise value.error("Expected a map of accounts with their users")
    accounts = {name: entry for name, entry in value.plain.items() if not entry.used_as_variable}
    for entry in accounts.values():
        if not isinstance(entry.plain, dict):
            raise entry.error("Expected map entries for accounts")
    system = accounts.pop(SYSTEM_ACCOUNT, None)
    if system is not None and not _is_unused(system):
        raise system.error(unsupported_message(SYSTEM_ACCOUNT, "settings for the system account"))
    if len(accounts) > 1:
        raise value.error(f"accounts: {ONE_ACCOUNT}")
    for name, entry in accounts.items():
        _check_name(name, entry)
        return {"account": name, **_read_account(name, entry, problems)}
    return {}


def _is_unused(account: Value) -> bool:
    return all(name.lower() == "users" and not value.plain for name, value in account.mapping().items())


def _check_name(name: str, entry: Value) -> None:
    """The name becomes a directory of the store, and is part of responses."""
    if name == GLOBAL_ACCOUNT:
        raise entry.error(f'"{name}" is a Reserved Account')
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise entry.error(f'"{name}" can not be the name of an account')


def _read_account(name: str, account: Value, problems: Problems) -> Changes:
    changes: Changes = {"account_jetstream": False}
    for field, value in account.mapping().items():
        lowered = field.lower()
        with problems.collecting():
            if lowered == "users":
                users = read_users(value, problems)
                check_names(value, users)
                changes["users"] = users
            elif lowered == "jetstream":
                changes.update(read_account_jetstream(value, problems))
            elif lowered in UNSUPPORTED_ACCOUNT:
                raise value.error(unsupported_message(field, UNSUPPORTED_ACCOUNT[lowered]))
            elif not value.used_as_variable:
                raise value.error(f'unknown field "{field}"')
    if "users" not in changes and not problems.errors:
        raise account.error(unsupported_message(name, "an account without users"))
    return changes


# What the account's streams may use


def read_account_jetstream(value: Value, problems: Problems) -> Changes:
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
        return {"account_jetstream": True, "account_limits": msgspec.convert(limits, AccountLimits)}
    if isinstance(plain, str):
        switch = plain.lower()
        if switch not in ("enabled", "enable", "disabled", "disable"):
            raise value.error(f"Expected 'enabled' or 'disabled' for string value, got '{plain}'")
        return {"account_jetstream": switch.startswith("enable")}
    if isinstance(plain, bool):
        return {"account_jetstream": plain}
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
