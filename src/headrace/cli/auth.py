"""`headrace auth`: operators, accounts, users and their credentials, in files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.cli.output import say
from headrace.cli.target import Target, tls_options
from headrace.errors import UsageError

if TYPE_CHECKING:
    from headrace.accounts.keyring import Keyring
    from headrace.client import Tls

Command = TypeVar("Command", bound=Callable[..., Any])

PUSH_SECONDS = 5
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}

directory_option = click.option(
    "--dir",
    "directory",
    default=".",
    metavar="DIR",
    help="Directory of `headrace auth init`. [default: this one]",
)
account_option = click.option(
    "--account", metavar="NAME", help="Account of the user. [default: the only one there is]"
)


@click.group(
    epilog="""\b
Examples:
  headrace auth init ./nats                       accounts, a user
  headrace auth user bert --dir ./nats            another user
  headrace auth revoke bert --dir ./nats          revoke its token
  headrace auth show ./nats/creds/APP/anna.creds  what a token says
"""
)
def auth() -> None:
    """Create operators, accounts and users. Any NATS server accepts their tokens."""


@auth.command()
@click.argument("directory")
@click.option("--operator", default="local", metavar="NAME", help="Name of the operator. [default: local]")
@click.option("--account", default="APP", metavar="NAME", help="Name of the first account. [default: APP]")
@click.option("--user", default="app", metavar="NAME", help="Name of its first user. [default: app]")
def init(directory: str, operator: str, account: str, user: str) -> int:
    """Create keys, users and a configuration in DIRECTORY.

    There is an operator, a system account, an account and a user in it. Keys and credentials are files that
    only you can read.
    """
    from headrace.accounts.keyring import Keyring

    ring = Keyring.create(directory, operator, account, user)
    shown = os.path.relpath(ring.directory)
    shown = shown if not shown.startswith("..") else ring.directory
    click.echo(
        f"Made operator {operator}, system account SYS, account {account} and user {user} in {shown}\n\n"
        f"Start a server:      headrace-server -c {shown}/server.conf\n"
        f"Connect:             nats.connect(user_credentials='{shown}/creds/{account}/{user}.creds')\n"
        f"Add a user:          headrace auth user NAME --dir {shown}\n"
        f"Look at a token:     headrace auth show {shown}/creds/{account}/{user}.creds\n\n"
        f"Keep {shown}/keys secret: whoever has it can make accounts and users. The server does not need it."
    )
    return 0


@auth.command()
@click.argument("name")
@directory_option
def account(name: str, directory: str) -> int:
    """Add an account. A running server finds it when its first user connects."""
    from headrace.accounts.keyring import Keyring

    key = Keyring(directory).add_account(name)
    click.echo(f"Account {name}: {key}")
    return 0


def _subjects(option: str, text: str) -> Callable[[Command], Command]:
    return click.option(option, multiple=True, metavar="SUBJECT", help=f"{text}; repeatable.")


@auth.command()
@click.argument("name")
@directory_option
@account_option
@_subjects("--allow-pub", "May publish to this subject, and to nothing that is not allowed")
@_subjects("--deny-pub", "Must not publish to this subject")
@_subjects("--allow-sub", "May subscribe to this subject, and to nothing that is not allowed")
@_subjects("--deny-sub", "Must not subscribe to this subject")
@click.option("--allow-responses", is_flag=True, help="May answer requests, wherever their replies go.")
@click.option(
    "--expires", metavar="WHEN", help="After this time, such as 12h or 30d, or on this day (2030-01-31)."
)
@click.option("--bearer", is_flag=True, help="The token alone is enough: whoever has it is this user.")
def user(
    name: str,
    directory: str,
    account: str | None,
    allow_pub: tuple[str, ...],
    deny_pub: tuple[str, ...],
    allow_sub: tuple[str, ...],
    deny_sub: tuple[str, ...],
    allow_responses: bool,
    expires: str | None,
    bearer: bool,
) -> int:
    """Add a user to an account, and write its .creds file."""
    from headrace.accounts.keyring import Keyring
    from headrace.cli.arguments import check_subject
    from headrace.keys.claims import PermissionClaims, ResponsePermission, SubjectList

    for subject in (*allow_pub, *deny_pub):
        check_subject(subject, wildcards=True)
    for subject in (*allow_sub, *deny_sub):
        check_subject(subject.partition(" ")[0], wildcards=True)
    permissions = PermissionClaims(
        pub=SubjectList(allow=list(allow_pub) or None, deny=list(deny_pub)),
        sub=SubjectList(allow=list(allow_sub) or None, deny=list(deny_sub)),
        resp=ResponsePermission(max=1) if allow_responses else None,
    )
    ring = Keyring(directory)
    path = ring.add_user(
        account or ring.only_account(),
        name,
        permissions=permissions,
        expires=parse_expiry(expires) if expires else 0,
        is_bearer=bearer,
    )
    click.echo(path)
    return 0


@auth.command()
@click.argument("name")
@directory_option
@account_option
@click.option("--server", "-s", metavar="URL", help="Tell this server at once, as `headrace auth push` does.")
@tls_options
def revoke(name: str, directory: str, account: str | None, server: str | None, tls: Tls | None) -> int:
    """Revoke a user's token.

    A running server learns of it with --server or `auth push`, and closes the user's connections. NAME is its
    name, its public key, or '*' for all users. Tokens that are issued later are accepted.
    """
    from headrace.accounts.keyring import Keyring

    ring = Keyring(directory)
    key = ring.revoke(account or ring.only_account(), name)
    click.echo(f"Revoked {key}")
    if server:
        return _push(ring, server, tls)
    say(f"a server that runs learns of it with: headrace auth push --dir {directory}")
    return 0


@auth.command()
@directory_option
@click.option(
    "--server",
    "-s",
    envvar="NATS_URL",
    default="nats://127.0.0.1:4222",
    metavar="URL",
    help="Server. [default: nats://127.0.0.1:4222; env NATS_URL]",
)
@tls_options
def push(directory: str, server: str, tls: Tls | None) -> int:
    """Send the tokens of all accounts to a running server.

    It connects as the user of the system account.
    """
    from headrace.accounts.keyring import Keyring

    return _push(Keyring(directory), server, tls)


def _push(ring: Keyring, server: str, tls: Tls | None) -> int:
    import asyncio

    click.echo(f"Pushed {asyncio.run(_send_tokens(ring, server, tls))} accounts to {server}")
    return 0


async def _send_tokens(ring: Keyring, server: str, tls: Tls | None) -> int:
    import nats.errors

    from headrace.cli.nats_connection import ConnectionFailedError, InterruptibleClient, route_log
    from headrace.client.credentials import Credentials

    route_log()
    credentials = Credentials(creds=ring.system_creds)
    connection = InterruptibleClient(Target(servers=(server,), credentials=credentials, tls=tls))
    tokens = ring.tokens()
    try:
        await connection.open()
        for token in tokens:
            request = connection.client.request(
                "$SYS.REQ.CLAIMS.UPDATE", token.encode(), timeout=PUSH_SECONDS
            )
            _check_answer((await connection.wait_for(request)).data)
    except ConnectionFailedError as error:
        raise UsageError(f"cannot push to {server} as the system account: {error}", hint=error.hint) from None
    except nats.errors.Error as error:
        raise UsageError(
            f"{server} does not take tokens: {error}", hint="its resolver must be of type full"
        ) from None
    finally:
        await connection.close()
    return len(tokens)


def _check_answer(data: bytes) -> None:
    import json

    answer = json.loads(data)
    if "error" in answer:
        raise UsageError(f"the server refused a token: {answer['error'].get('description', '')}")


@auth.command()
@click.argument("file")
def show(file: str) -> int:
    """Print the contents of a token, a .creds file or a key. A seed is never printed."""
    from headrace.cli.output import printable
    from headrace.keys.token_text import describe_file

    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    click.echo(printable(describe_file(file, text)))
    return 0


def parse_expiry(text: str) -> int:
    """Seconds since 1970. Raises UsageError."""
    import time

    span = re.fullmatch(r"(\d{1,6})([smhdwy])", text)
    if span:
        return int(time.time()) + int(span.group(1)) * UNITS[span.group(2)]
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--expires {text!r} is neither a time span nor a day", hint="write 12h, 30d, 1y or 2030-01-31"
        ) from None
    at = int((day if day.tzinfo else day.replace(tzinfo=UTC)).timestamp())
    if at <= time.time():
        raise UsageError(f"--expires {text} is over already")
    return at
