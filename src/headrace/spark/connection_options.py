"""How to reach the servers: addresses, credentials and TLS, on the driver and on the workers.

Only the driver has the files. It reads them when a query is defined, and again for each batch of a streaming
read; their contents reach the workers inside readers and writers, which Spark never shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.client.credentials import Credentials
from headrace.client.errors import ConnectionFailed, UsageError
from headrace.client.tls import Tls
from headrace.spark.failure import DataSourceError


@dataclass(frozen=True)
class ConnectionOptions:
    """Its repr contains no secrets."""

    servers: tuple[str, ...]
    credentials: Credentials
    """Contents, for the workers."""
    tls: Tls | None
    """The same."""
    files: tuple[Credentials, Tls | None]
    """With paths, for the driver."""
    connect_timeout: float
    request_timeout: float
    reconnect_timeout: float

    def __repr__(self) -> str:
        return f"ConnectionOptions(servers={self.servers})"

    def renewed(self) -> ConnectionOptions:
        """The same with the current contents of the files; unchanged if they cannot be read."""
        credentials, tls = self.files
        if self.files == (self.credentials, self.tls):  # there are no files
            return self
        try:
            return replace(self, credentials=credentials.loaded(), tls=tls and tls.loaded())
        except ConnectionFailed:
            return self


def connection_options(found: Mapping[str, Any]) -> ConnectionOptions:
    """Raises DataSourceError, including for a file that cannot be used."""

    def of(name: str) -> str:
        path, contents = found[f"nats.{name}"], found[f"nats.{name}.secret"]
        if path and contents:
            raise DataSourceError(f"`nats.{name}` and `nats.{name}.secret` are both given", hint="omit one")
        return str(path or contents)

    for server in found["servers"]:
        _check_server(server)
    tls = Tls(
        ca=found["nats.tls.ca"],
        cert=found["nats.tls.cert"],
        key=of("tls.key"),
        key_password=found["nats.tls.keyPassword"],
        server_name=found["nats.tls.serverName"],
        handshake_first=found["nats.tls.handshakeFirst"],
        insecure=found["nats.tls.insecure"],
    )
    insisted = None if tls == Tls() else tls
    try:
        credentials = Credentials(
            user=found["nats.user"],
            password=found["nats.password"],
            token=found["nats.token"],
            creds=of("creds"),
            nkey=of("nkey"),
            jwt=of("jwt"),
            seed=of("seed"),
        )
        return ConnectionOptions(
            servers=found["servers"],
            credentials=credentials.loaded(),
            tls=insisted and insisted.loaded(),
            files=(credentials, insisted),
            connect_timeout=found["nats.connectTimeout"],
            request_timeout=found["nats.requestTimeout"],
            reconnect_timeout=found["nats.reconnectTimeout"],
        )
    except (ConnectionFailed, UsageError) as error:
        raise DataSourceError(str(error), hint=error.hint) from None


def _check_server(server: str) -> None:
    """Spark shows `servers` in its plans, so it must not contain secrets."""
    if "@" in server:
        raise DataSourceError(
            "`servers` has credentials in a URL, which Spark would show in its plans",
            hint="give them as `nats.user` and `nats.password`, or as `nats.token`",
        )
