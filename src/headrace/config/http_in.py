"""Reads the `http_in` block: a port that takes messages over HTTP. nats-server has no such block."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.config.addresses import read_listen
from headrace.config.durations import parse_duration
from headrace.config.problems import Problems
from headrace.config.tls.directives import read_tls
from headrace.config.tls.settings import TlsSettings
from headrace.config.values import Value
from headrace.errors import ConfigError

DEFAULT_MAX_BODY = 8 * 1024 * 1024
DEFAULT_TIMEOUT_SECONDS = 5.0
DEFAULT_MAX_CONNECTIONS = 256
ANY_ORIGIN = "*"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class HttpInOptions(msgspec.Struct, frozen=True):
    """All of it. Durations are seconds, sizes are bytes."""

    host: str = ""  # empty: that of the server
    port: int = 0  # 0: there is no such port
    tls: TlsSettings | None = None
    max_body: int = DEFAULT_MAX_BODY
    max_connections: int = DEFAULT_MAX_CONNECTIONS
    timeout: float = DEFAULT_TIMEOUT_SECONDS  # for a stream to acknowledge
    headers: tuple[str, ...] = ()  # of requests that messages get, besides Nats-...
    allowed_origins: tuple[str, ...] = ()  # of pages in browsers


NO_HTTP_IN = HttpInOptions()

Changes = dict[str, Any]
Reader = Callable[[Value], Changes]


def read_http_in(block: Value, problems: Problems) -> dict[str, object]:
    """The change that the block, or a port alone, makes to Options. Errors go to `problems`."""
    if not isinstance(block.plain, dict):
        host, port = read_listen(block)
        return {"http_in": HttpInOptions(host=host, port=port)}
    changes: Changes = {}
    for name, value in block.plain.items():
        with problems.collecting():
            reader = FIELDS.get(name.lower())
            if reader is not None:
                changes.update(reader(value))
            elif not value.used_as_variable:
                raise value.error(f'unknown field "{name}"')
    return {"http_in": HttpInOptions(**changes)}


def _listen(value: Value) -> Changes:
    host, port = read_listen(value)
    return {"host": host, "port": port}


def _tls(value: Value) -> Changes:
    settings = read_tls(value)
    if settings.verify:
        raise value.error("http_in does not ask for certificates", hint="use passwords or tokens there")
    return {"tls": settings}


def _positive(option: str) -> Reader:
    def read(value: Value) -> Changes:
        if value.integer() <= 0:
            raise value.error(f"http_in {option} must be greater than 0")
        return {option: value.integer()}

    return read


def _timeout(value: Value) -> Changes:
    try:
        seconds = float(value.plain) if type(value.plain) is int else parse_duration(value.string())
    except ValueError as error:
        raise value.error(f"error parsing timeout: {error}") from None
    if seconds <= 0:
        raise value.error("http_in timeout must be greater than 0")
    return {"timeout": seconds}


def _strings(value: Value) -> tuple[str, ...]:
    return (value.plain,) if isinstance(value.plain, str) else tuple(one.string() for one in value.array())


def _headers(value: Value) -> Changes:
    names = _strings(value)
    for name in names:
        if not _HEADER_NAME.fullmatch(name):
            raise value.error(f"{name!r} is not the name of a header")
        if name.lower() in ("authorization", "cookie"):
            raise value.error(f"{name} holds secrets, which do not belong into messages")
    return {"headers": names}


FIELDS: dict[str, Reader] = {
    "listen": _listen,
    "host": lambda value: {"host": value.string()},
    "net": lambda value: {"host": value.string()},
    "port": lambda value: {"port": value.integer()},
    "tls": _tls,
    "max_body": _positive("max_body"),
    "max_connections": _positive("max_connections"),
    "timeout": _timeout,
    "headers": _headers,
    "allowed_origins": lambda value: {"allowed_origins": _strings(value)},
}


def check_http_in(options: HttpInOptions, *, ports: dict[str, int]) -> None:
    """Raises ConfigError if another port of the server is the same."""
    for name, port in ports.items():
        if options.port > 0 and port == options.port:
            raise ConfigError(
                f"http_in and {name} both use port {port}", hint="choose another for one of them"
            )
