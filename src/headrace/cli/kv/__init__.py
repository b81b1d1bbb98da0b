"""`headrace kv`: key-value buckets of any NATS server, with the names and flags of the nats tool."""

from __future__ import annotations

import click

from headrace.cli.alias_group import AliasGroup
from headrace.cli.kv.bucket_commands import add, info, ls
from headrace.cli.kv.key_commands import create, get, history, put, update
from headrace.cli.kv.removal_commands import compact, delete, purge, revert
from headrace.cli.kv.watch import watch

ALIASES = {"new": "add", "list": "ls", "rm": "del", "view": "info", "status": "info"}


@click.group(cls=AliasGroup, aliases=ALIASES, short_help="Key-value buckets of any NATS server.")
def kv() -> None:
    """Key-value buckets of any NATS server."""


for command in (ls, add, info, put, get, create, update, delete, purge, history, revert, watch, compact):
    kv.add_command(command)
