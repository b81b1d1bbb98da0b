"""A group of commands each of which is imported when it is used.

Options cost time to define: `headrace pub` should not pay for those of `headrace stream`. So a group is a
table of places, and looking a command up imports its module and no other. Only the list of all commands, in
the help of a group, imports all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from importlib import import_module
from typing import Any

import click

from headrace.cli.alias_group import AliasGroup


class LazyGroup(AliasGroup):
    """`places` is from the name of a command to where it is: `module:attribute`."""

    def __init__(self, *arguments: Any, places: Mapping[str, str], **options: Any) -> None:
        self._places = dict(places)
        super().__init__(*arguments, **options)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = self.aliases.get(cmd_name, cmd_name)
        return self._import(name) if name in self._places else None

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """All of them, for those who want to see the whole tree."""
        return {name: self._import(name) for name in self._places}

    @commands.setter
    def commands(self, commands: MutableMapping[str, click.Command]) -> None:
        """click sets an empty one when the group is made."""

    def _import(self, name: str) -> click.Command:
        module, _, attribute = self._places[name].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command
