"""A group whose commands have other names, too, as those of the nats tool do: `kv rm` is `kv del`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click


class AliasGroup(click.Group):
    """`aliases` is from the other name to the name; only names are shown."""

    def __init__(self, *arguments: Any, aliases: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.aliases = dict(aliases or {})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, self.aliases.get(cmd_name, cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        _, command, rest = super().resolve_command(ctx, args)
        return command.name if command else None, command, rest
