"""What a command was told about its server, as options of the data source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.client.addresses import parse_servers
from headrace.client.credentials import Credentials, is_contents
from headrace.client.tls import Tls
from headrace.errors import UsageError

if TYPE_CHECKING:
    from headrace.cli.target import Target


def source_options(target: Target) -> dict[str, str]:
    """The data source's options for the server that a command was given.

    Spark shows `servers` in plans: credentials in URLs become options that it hides.
    """
    addresses = parse_servers(target.servers)
    credentials, tls = target.credentials, target.tls or Tls()
    identities = {(address.user, address.password, address.token) for address in addresses}
    if len(identities) > 1:
        raise UsageError("the servers have different credentials", hint="use the same for all of them")
    user, password, token = next(iter(identities))
    if user is not None or token is not None:
        credentials = Credentials(user=user or "", password=password or "", token=token or "")
    given = {
        "servers": ",".join(address.url for address in addresses),
        "nats.user": credentials.user,
        "nats.password": credentials.password,
        "nats.token": credentials.token,
        **_file_option("nats.creds", credentials.creds),
        **_file_option("nats.nkey", credentials.nkey),
        **_file_option("nats.jwt", str(credentials.jwt)),
        **_file_option("nats.seed", credentials.seed),
        "nats.tls.ca": _absolute(tls.ca),
        "nats.tls.cert": _absolute(tls.cert),
        **_file_option("nats.tls.key", tls.key),
        "nats.tls.keyPassword": tls.key_password,
        "nats.tls.serverName": tls.server_name,
        "nats.tls.handshakeFirst": "true" if tls.handshake_first else "",
        "nats.tls.insecure": "true" if tls.insecure else "",
    }
    return {name: value for name, value in given.items() if value}


def _file_option(name: str, text: str) -> dict[str, str]:
    """A path, or contents under a name that Spark hides."""
    return {f"{name}.secret": text} if is_contents(text) else {name: _absolute(text)}


def _absolute(path: str) -> str:
    """Spark's processes may run in another directory."""
    return path if not path or is_contents(path) else str(Path(path).expanduser().absolute())
