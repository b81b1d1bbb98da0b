"""A command with subcommands that also does something without one: `headrace bench`, `headrace land`."""

from __future__ import annotations

from typing import Any

import click

DEFAULT = "run"


class DefaultGroup(click.Group):
    """Without the name of a subcommand, its hidden command `run` runs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if self.names_command(args) else [DEFAULT, *args])

    def names_command(self, args: list[str]) -> bool:
        return bool(args) and args[0] in self.commands


class NamelessCommand(click.Command):
    """Shown as its group: `headrace bench`, not `headrace bench run`."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if parent is not None:
            info_name, parent = parent.info_name, parent.parent
        return super().make_context(info_name, args, parent, **extra)
