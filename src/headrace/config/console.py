"""`console`: the web console on the monitoring port. nats-server has none, so the names are ours."""

from __future__ import annotations

import msgspec

from headrace.config.values import Value


class ConsoleOptions(msgspec.Struct, frozen=True):
    """It is on wherever there is a monitoring port, unless it is turned off or nobody could be kept out."""

    enabled: bool = True
    read_only: tuple[str, ...] = ()
    """Users, or public nkeys, that may look but not touch."""
    hosts: tuple[str, ...] = ()
    """Names, besides its own, under which browsers reach the server, for example through a proxy."""


DEFAULT_CONSOLE = ConsoleOptions()


def read_console(value: Value) -> ConsoleOptions:
    """A block, or a boolean. Raises ConfigError."""
    if type(value.plain) is bool:
        return ConsoleOptions(enabled=value.plain)
    changes: dict[str, object] = {}
    for name, item in value.mapping().items():
        lowered = name.lower()
        if lowered == "enabled":
            changes["enabled"] = item.boolean()
        elif lowered in ("read_only", "hosts"):
            changes[lowered] = _strings(item)
        elif not item.used_as_variable:
            raise item.error(f'unknown field "{name}" in console', hint="enabled, read_only or hosts")
    return msgspec.convert(changes, ConsoleOptions)


def _strings(value: Value) -> tuple[str, ...]:
    if type(value.plain) is str:
        return (value.plain,)
    return tuple(item.string() for item in value.array())
