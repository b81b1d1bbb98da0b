"""`headrace object`: object stores of any NATS server, with the names and flags of the nats tool."""

from __future__ import annotations

import click

from headrace.cli.alias_group import AliasGroup
from headrace.cli.object.bucket_commands import add, info, ls, seal
from headrace.cli.object.get import get
from headrace.cli.object.put import put
from headrace.cli.object.removal import delete

ALIASES = {"new": "add", "list": "ls", "del": "rm", "show": "info", "i": "info"}


@click.group(name="object", cls=AliasGroup, aliases=ALIASES, short_help="Object stores of any NATS server.")
def objects() -> None:
    """Object stores of any NATS server: files of any size."""


for command in (ls, add, info, put, get, delete, seal):
    objects.add_command(command)
