"""`headrace consumer`: create, look at, change, pause and read from consumers of any NATS server.

As `headrace stream`, whose API and options it shares.
"""

from __future__ import annotations

from headrace.cli.lazy_group import LazyGroup

PLACES = {
    "ls": "headrace.cli.consumer.listing:ls",
    "add": "headrace.cli.consumer.changing:add",
    "info": "headrace.cli.consumer.showing:info",
    "next": "headrace.cli.consumer.reading:next_",
    "edit": "headrace.cli.consumer.changing:edit",
    "pause": "headrace.cli.consumer.pausing:pause",
    "resume": "headrace.cli.consumer.pausing:resume",
    "rm": "headrace.cli.consumer.pausing:rm",
}
ALIASES = {"create": "add", "new": "add", "list": "ls", "update": "edit", "delete": "rm", "del": "rm"}

consumer = LazyGroup("consumer", places=PLACES, aliases=ALIASES, help="Manage consumers of any NATS server.")
