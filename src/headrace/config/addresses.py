"""Reads `listen`-style values: a port, or "host:port" with IPv6 hosts in brackets."""

from __future__ import annotations

import re

from headrace.config.values import KIND_NAMES, Value

_PORT = re.compile(r"[+-]?[0-9]{1,18}")


def read_listen(value: Value) -> tuple[str, int]:
    """Host (empty if it is not given) and port. Raises ConfigError."""
    plain = value.plain
    if type(plain) is int:
        return "", plain
    if not isinstance(plain, str):
        raise value.error(f"expected port or host:port, got {KIND_NAMES[type(plain)]}")
    host_port = split_host_port(plain)
    if host_port is None:
        raise value.error(f'could not parse address string "{plain}"')
    host, port = host_port
    if not _PORT.fullmatch(port):
        raise value.error(f'could not parse port "{port}"')
    return host, int(port)


def split_host_port(address: str) -> tuple[str, str] | None:
    """The two halves of "host:port" or "[host]:port"; None if it is neither."""
    host, colon, port = address.rpartition(":")
    if not colon:
        return None
    if host.startswith("["):
        inner = host[1:-1]
        return (inner, port) if host.endswith("]") and "[" not in inner and "]" not in inner else None
    if any(character in host for character in ":[]") or any(character in port for character in "[]"):
        return None
    return host, port
