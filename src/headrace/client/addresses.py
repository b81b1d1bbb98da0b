"""The address of a server and our credentials: `host:port`, `nats://user:password@host:port`, `tls://token@host`."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from headrace.client.credentials import Credentials
from headrace.client.tls import Tls
from headrace.errors import UsageError

DEFAULT_PORT = 4222


class Address(NamedTuple):
    """Its repr shows no secret."""

    host: str
    port: int
    user: str | None = None
    password: str | None = None
    token: str | None = None
    secure: bool = False
    """From a tls:// URL: without TLS there is no connection."""
    name: str = ""
    """What the server's certificate says, if it is not the host."""
    identity: Credentials | None = None
    """For the benchmark, in which servers have different ones; and TLS likewise."""
    tls: Tls | None = None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Address({self})"

    @property
    def url(self) -> str:
        """Without credentials."""
        return f"{'tls' if self.secure else 'nats'}://{self}"

    @property
    def certificate_name(self) -> str:
        return self.name or self.host

    def neighbour(self, host: str, port: int) -> Address:
        """Another server of the same cluster, to which we go as we went to this one.

        If it is known by its IP address only, its certificate has the name that we know the cluster by.
        """
        name = self.certificate_name if _is_ip(host) else ""
        return self._replace(host=host, port=port, name=name)

    @property
    def credentials(self) -> dict[str, str]:
        """The fields of CONNECT."""
        named = {"user": self.user, "pass": self.password, "auth_token": self.token}
        return {name: value for name, value in named.items() if value is not None}


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def parse_servers(servers: str | Sequence[str]) -> list[Address]:
    """A URL, a comma-separated list, or a list of URLs. Raises UsageError."""
    texts = servers.split(",") if isinstance(servers, str) else servers
    addresses = [parse_url(text.strip()) for text in texts if text.strip()]
    if not addresses:
        raise UsageError("no server is given", hint="write it as nats://host:port")
    return addresses


def parse_url(text: str) -> Address:
    scheme, separator, _ = text.partition("://")
    if scheme.lower() in ("ws", "wss") and separator:
        raise UsageError(
            "this client has no WebSocket",
            hint="use the server's port for clients: nats:// or tls://host:port",
        )
    if separator and scheme.lower() not in ("nats", "tls"):
        raise UsageError(f"a server's URL starts with nats:// or tls://, not with {scheme}://")
    secure = bool(separator) and scheme.lower() == "tls"
    try:
        parts = urlsplit(text if separator else f"nats://{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"a server's URL is nats://host:port; this one is not: {error}") from None
    if not host:
        raise UsageError("a server's URL is nats://host:port; this one has no host")
    user = None if parts.username is None else unquote(parts.username)
    if parts.password is not None:
        return Address(host, port or DEFAULT_PORT, user, unquote(parts.password), secure=secure)
    return Address(host, port or DEFAULT_PORT, token=user, secure=secure)
