"""`headrace stream`: create, look at, change, copy, export and back up streams of any NATS server.

One file per command, or per few that belong together. Commands import the client when they run.
"""

from __future__ import annotations

from headrace.cli.lazy_group import LazyGroup

PLACES = {
    "ls": "headrace.cli.stream.listing:ls",
    "add": "headrace.cli.stream.changing:add",
    "info": "headrace.cli.stream.showing:info",
    "edit": "headrace.cli.stream.changing:edit",
    "view": "headrace.cli.stream.viewing:view",
    "get": "headrace.cli.stream.viewing:get",
    "purge": "headrace.cli.stream.removing:purge",
    "rm": "headrace.cli.stream.removing:rm",
    "copy": "headrace.cli.stream.copying:copy",
    "export": "headrace.cli.stream.exporting:export",
    "import": "headrace.cli.stream.importing:import_",
    "backup": "headrace.cli.stream.backups:backup",
    "restore": "headrace.cli.stream.backups:restore",
}
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

stream = LazyGroup("stream", places=PLACES, aliases=ALIASES, help="Manage streams of any NATS server.")
