"""`headrace consumer`: create, look at, change, pause and read from consumers of any NATS server.

As `headrace stream`, whose API and options it shares.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from headrace.cli.lazy_group import LazyGroup


def _commands() -> Sequence[click.Command]:
    from headrace.cli.consumer.changing import add, edit
    from headrace.cli.consumer.listing import ls
    from headrace.cli.consumer.pausing import pause, resume, rm
    from headrace.cli.consumer.reading import next_
    from headrace.cli.consumer.showing import info

    return ls, add, info, next_, edit, pause, resume, rm


ALIASES = {"create": "add", "new": "add", "list": "ls", "update": "edit", "delete": "rm", "del": "rm"}

consumer = LazyGroup("consumer", _commands, aliases=ALIASES, help="Manage consumers of any NATS server.")
