"""`headrace check`: checks for monitoring systems, of any NATS server.

Names, flags, defaults and the formats of the output are those of `nats server check`.
"""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.alias_group import AliasGroup
from headrace.cli.check.connections import connection, request
from headrace.cli.check.consumers import consumer
from headrace.cli.check.credentials import credential
from headrace.cli.check.jetstreams import jetstream
from headrace.cli.check.messages import kv, message
from headrace.cli.check.servers import server
from headrace.cli.check.streams import stream
from headrace.cli.output import one_line

UNKNOWN = 3
ALIASES = {"conn": "connection", "js": "jetstream", "req": "request"}


class CheckGroup(AliasGroup):
    """A wrong command line is UNKNOWN: its usual exit code would say CRITICAL."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            click.echo(f"UNKNOWN {one_line(error.format_message())}")
            return UNKNOWN


@click.group(cls=CheckGroup, aliases=ALIASES, short_help="Checks for monitoring systems.")
def check() -> None:
    """Checks for monitoring systems, of any NATS server.

    The exit code is 0 for OK, 1 for WARNING, 2 for CRITICAL and 3 for UNKNOWN.
    """


for command in (connection, request, stream, consumer, message, kv, jetstream, server, credential):
    check.add_command(command)
