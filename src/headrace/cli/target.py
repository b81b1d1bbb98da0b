"""Where a command connects to, and as whom: the options that all commands share.

Secrets are best given as files, or in the environment. The names of the variables are those of the nats CLI.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.cli.arguments import split_servers
from headrace.errors import UsageError

if TYPE_CHECKING:
    from headrace.client.credentials import Credentials
    from headrace.client.tls import Tls

DEFAULT_SERVER = "nats://127.0.0.1:4222"

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Target:
    """Which servers to try, in this order, and with which credentials. `tls`: no connection without it."""

    servers: tuple[str, ...]
    credentials: Credentials
    tls: Tls | None = None

    def __repr__(self) -> str:
        return "Target(...)"  # a URL may contain a password, too


IDENTITY_FILES = {
    "--creds": ("NATS_CREDS", "Credentials file (.creds) with a user's JWT and seed."),
    "--nkey": ("NATS_NKEY", "File with the seed of an nkey."),
}
TLS_FILES = {
    "--tls-ca": ("NATS_CA", "CA that signed the server's certificate."),
    "--tls-cert": ("NATS_CERT", "Client certificate."),
    "--tls-key": ("NATS_KEY", "Key of the client certificate."),
}
SWITCHES = {
    "--tls-first": "Start with TLS, for a server with handshake_first.",
    "--tls-insecure": "Accept any certificate: anyone on the network path can read and change everything.",
}
PASSWORD_HELP = "Password of that key; visible in the process list, so prefer the environment."


def tls_options(command: Command, *, environment: bool = True) -> Command:
    """Adds --tls-…; passes them on as `tls: Tls | None`."""

    @wraps(command)
    def with_tls(
        *arguments: Any,
        tls_ca: str | None,
        tls_cert: str | None,
        tls_key: str | None,
        tls_key_password: str | None,
        tls_server_name: str | None,
        tls_first: bool,
        tls_insecure: bool,
        **others: Any,
    ) -> Any:
        from headrace.client.tls import Tls

        if bool(tls_cert) != bool(tls_key):
            raise click.UsageError("--tls-cert and --tls-key belong together")
        tls = Tls(
            ca=tls_ca or "",
            cert=tls_cert or "",
            key=tls_key or "",
            key_password=tls_key_password or "",
            server_name=tls_server_name or "",
            handshake_first=tls_first,
            insecure=tls_insecure,
        )
        return command(*arguments, tls=None if tls == Tls() else tls, **others)

    options = [
        *_files(TLS_FILES, environment),
        click.option(
            "--tls-key-password",
            metavar="SECRET",
            **_named("NATS_KEY_PASSWORD", PASSWORD_HELP, environment),
        ),
        click.option("--tls-server-name", metavar="NAME", help="Name in the server's certificate."),
        *(click.option(name, is_flag=True, help=text) for name, text in SWITCHES.items()),
    ]
    decorated: Command = _with_options(with_tls, options)
    return decorated


def identity_options(command: Command, *, environment: bool = True) -> Command:
    """Adds --creds, --nkey and --tls-…; passes them on as `identity: Credentials` and `tls: Tls | None`."""

    @wraps(command)
    def with_identity(*arguments: Any, creds: str | None, nkey: str | None, **others: Any) -> Any:
        from headrace.client.credentials import Credentials

        if creds and nkey:
            raise click.UsageError("use either --creds or --nkey, not both")
        return command(*arguments, identity=Credentials(creds=creds or "", nkey=nkey or ""), **others)

    decorated: Command = _with_options(
        tls_options(with_identity, environment=environment), _files(IDENTITY_FILES, environment)
    )
    return decorated


def _files(files: dict[str, tuple[str, str]], environment: bool) -> list[Any]:
    return [
        click.option(name, metavar="FILE", **_named(variable, text, environment))
        for name, (variable, text) in files.items()
    ]


def _named(variable: str, text: str, environment: bool) -> dict[str, Any]:
    return {"envvar": variable, "help": f"{text} [env {variable}]"} if environment else {"help": text}


def connection_options(command: Command) -> Command:
    """Adds --server, --user, --password, --token and the above; passes them on as `target: Target`."""

    @wraps(command)
    def with_target(
        *arguments: Any,
        server: tuple[str, ...],
        user: str | None,
        password: str | None,
        token: str | None,
        identity: Credentials,
        tls: Tls | None,
        **others: Any,
    ) -> Any:
        if user is None and password is not None:
            raise click.UsageError("--password needs --user")
        try:
            credentials = replace(identity, user=user or "", password=password or "", token=token or "")
        except UsageError as error:
            raise click.UsageError(f"{error}: {error.hint}") from None
        return command(*arguments, target=Target(servers=server, credentials=credentials, tls=tls), **others)

    options = [
        click.option(
            "--server",
            "-s",
            callback=split_servers,
            envvar="NATS_URL",
            default=DEFAULT_SERVER,
            metavar="URL",
            help=f"Server, or a comma-separated list. [default: {DEFAULT_SERVER}; env NATS_URL]",
        ),
        click.option("--user", envvar="NATS_USER", metavar="NAME", help="User name. [env NATS_USER]"),
        click.option(
            "--password",
            envvar="NATS_PASSWORD",
            metavar="SECRET",
            help="Password; visible in the process list, so prefer [env NATS_PASSWORD]",
        ),
        click.option(
            "--token",
            envvar="NATS_TOKEN",
            metavar="SECRET",
            help="Token; visible in the process list, so prefer [env NATS_TOKEN]",
        ),
    ]
    decorated: Command = _with_options(identity_options(with_target), options)
    return decorated


def _with_options(command: Any, options: list[Any]) -> Any:
    for option in reversed(options):
        command = option(command)
    return command
