"""The arguments that all commands about one consumer share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from headrace.cli.arguments import name_of_stream

Command = TypeVar("Command", bound=Callable[..., Any])


def name_of_consumer(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    try:
        return name_of_stream(ctx, param, value)
    except click.UsageError as error:
        raise click.UsageError(error.message.replace("stream name", "consumer name")) from None


def consumer_arguments(command: Command) -> Command:
    """Adds STREAM and CONSUMER."""
    with_name = click.argument("consumer", callback=name_of_consumer)(command)
    return click.argument("stream", callback=name_of_stream)(with_name)
