"""The address of a server and our credentials: `host:port`, `nats://user:password@host:port`, `nats://token@host`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from headrace.errors import UsageError

DEFAULT_PORT = 4222


class Address(NamedTuple):
    """Its repr shows no secret."""

    host: str
    port: int
    user: str | None = None
    password: str | None = None
    token: str | None = None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Address({self})"

    @property
    def credentials(self) -> dict[str, str]:
        """The fields of CONNECT."""
        named = {"user": self.user, "pass": self.password, "auth_token": self.token}
        return {name: value for name, value in named.items() if value is not None}


def parse_servers(servers: str | Sequence[str]) -> list[Address]:
    """A URL, a comma-separated list, or a list of URLs. Raises UsageError."""
    texts = servers.split(",") if isinstance(servers, str) else servers
    addresses = [parse_url(text.strip()) for text in texts if text.strip()]
    if not addresses:
        raise UsageError("no server is given", hint="write it as nats://host:port")
    return addresses


def parse_url(text: str) -> Address:
    scheme, separator, _ = text.partition("://")
    if separator and scheme.lower() != "nats":
        raise UsageError(f"a server's URL starts with nats://, not with {scheme}:// (this client has no TLS)")
    try:
        parts = urlsplit(text if separator else f"nats://{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"a server's URL is nats://host:port; this one is not: {error}") from None
    if not host:
        raise UsageError("a server's URL is nats://host:port; this one has no host")
    user = None if parts.username is None else unquote(parts.username)
    if parts.password is not None:
        return Address(host, port or DEFAULT_PORT, user, unquote(parts.password))
    return Address(host, port or DEFAULT_PORT, token=user)
