"""A group of commands that are imported when one of them is used.

Options cost time to define, and every command starts with defining all: `headrace pub` should not pay for
those of `headrace stream`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence

import click

from headrace.cli.alias_group import AliasGroup


class LazyGroup(AliasGroup):
    """`load` returns its commands; `aliases` is from the other names that they have to their names."""

    def __init__(
        self,
        name: str,
        load: Callable[[], Sequence[click.Command]],
        *,
        aliases: Mapping[str, str],
        help: str,  # noqa: A002
    ) -> None:
        self._load = load
        self._loaded: dict[str, click.Command] | None = None
        super().__init__(name, aliases=aliases, help=help)

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        if self._loaded is None:
            self._loaded = {str(command.name): command for command in self._load()}
        return self._loaded

    @commands.setter
    def commands(self, commands: MutableMapping[str, click.Command]) -> None:
        """click sets an empty one when the group is made."""
