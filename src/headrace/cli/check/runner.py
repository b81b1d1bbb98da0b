"""Runs a check: connects, lets it look, prints what it found, and returns the exit code."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.cli.check.result import FORMATS, Result
from headrace.cli.tables import terminal_width
from headrace.cli.target import Target
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.cli.jetstream.api import JetStream

NAMESPACE = "nats_server_check"
INTERRUPTED = 130
Command = TypeVar("Command", bound=Callable[..., Any])
Work = Callable[[Result, "JetStream"], Awaitable[None]]


def report_options(command: Command) -> Command:
    """Adds --format, --namespace and --outfile; passes them on as `report: Report`."""

    @wraps(command)
    def with_report(
        *arguments: Any, output_format: str, namespace: str, outfile: str | None, **others: Any
    ) -> Any:
        return command(*arguments, report=Report(output_format, namespace, outfile), **others)

    decorated: Any = with_report
    for option in reversed(
        (
            click.option(
                "--format",
                "output_format",
                type=click.Choice(FORMATS),
                default="nagios",
                help="How to print the result. [default: nagios]",
            ),
            click.option(
                "--namespace",
                default=NAMESPACE,
                metavar="NAME",
                help=f"First part of Prometheus' names. [default: {NAMESPACE}]",
            ),
            click.option("--outfile", metavar="FILE", help="Write the result to this file."),
        )
    ):
        decorated = option(decorated)
    result: Command = decorated
    return result


class Report:
    """Where the result goes, and in which format."""

    def __init__(self, form: str, namespace: str, outfile: str | None) -> None:
        self._form = form
        self._namespace = namespace
        self._outfile = outfile

    def print(self, result: Result) -> int:
        """The exit code."""
        width = terminal_width() if self._outfile is None else None
        text = result.render(self._form, self._namespace, width)
        if self._outfile is None:
            click.echo(text)
        else:
            try:
                _replace_file(self._outfile, text + "\n")
            except OSError as error:
                click.echo(f"UNKNOWN cannot write {self._outfile}: {error.strerror}")
                return 3
        return result.exit_code(self._form)


def _replace_file(path: str, text: str) -> None:
    """At once: what collects the file never sees half of it."""
    import secrets

    partial = f"{path}.{secrets.token_hex(4)}.part"
    with open(partial, "x") as file:
        file.write(text)
    os.replace(partial, path)


def run_check(report: Report, result: Result, target: Target, work: Work) -> int:
    """As a server that cannot be asked is a reason to wake somebody, an error is CRITICAL."""
    import asyncio

    return run_any_check(report, result, lambda: asyncio.run(_connected(result, target, work)))


def run_any_check(report: Report, result: Result, work: Callable[[], bool | None]) -> int:
    """A check that needs no connection."""
    try:
        if work():
            return INTERRUPTED
    except HeadraceError as error:
        result.critical(error.explained)
    except Exception as error:  # the edge of the check: a bug is neither WARNING nor OK
        if os.environ.get("HEADRACE_TRACEBACK"):
            raise
        result.unknown(f"this is a bug: {type(error).__name__}: {error}")
    return report.print(result)


async def _connected(result: Result, target: Target, work: Work) -> bool:
    """Whether it was interrupted."""
    from headrace.cli.jetstream.api import JetStream
    from headrace.cli.nats_connection import ConnectionFailedError, Interrupted, connect

    start = time.monotonic()
    try:
        async with connect(target) as connection:
            connection.connect_seconds = time.monotonic() - start
            try:
                await work(result, JetStream(connection))
            except Interrupted:
                return True
    except ConnectionFailedError as error:
        raise HeadraceError(f"connection failed: {error}") from None
    return False
