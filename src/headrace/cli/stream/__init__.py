"""`headrace stream`: create, look at, change, copy, export and back up streams of any NATS server.

One file per command, or per few that belong together. Commands import the client when they run.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from headrace.cli.lazy_group import LazyGroup


def _commands() -> Sequence[click.Command]:
    from headrace.cli.stream.backups import backup, restore
    from headrace.cli.stream.changing import add, edit
    from headrace.cli.stream.copying import copy
    from headrace.cli.stream.exporting import export
    from headrace.cli.stream.importing import import_
    from headrace.cli.stream.listing import ls
    from headrace.cli.stream.removing import purge, rm
    from headrace.cli.stream.showing import info
    from headrace.cli.stream.viewing import get, view

    return ls, add, info, edit, view, get, purge, rm, copy, export, import_, backup, restore


ALIASES = {
    "create": "add",
    "new": "add",
    "list": "ls",
    "update": "edit",
    "cp": "copy",
    "delete": "rm",
    "del": "rm",
    "snapshot": "backup",
}

stream = LazyGroup("stream", _commands, aliases=ALIASES, help="Manage streams of any NATS server.")
