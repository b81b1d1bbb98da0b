"""Thresholds: options of the command line, or metadata of a stream or a consumer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from headrace.cli.human import Duration
from headrace.errors import HeadraceError
from headrace.go_formats import NANOSECONDS
from headrace.quantities import parse_duration

METADATA = "io.nats.monitor."


def duration_option(name: str, default: str | None, text: str) -> Callable[[Any], Any]:
    """In seconds; 0 if it is not given."""

    def seconds(ctx: click.Context, param: click.Parameter, value: int | None) -> float:
        return (value or 0) / NANOSECONDS

    shown = f"{text} [default: {default}]" if default else text
    return click.option(
        name, type=Duration, default=default, callback=seconds, metavar="DURATION", help=shown
    )


def count_option(name: str, text: str, default: int = 0, metavar: str = "N") -> Callable[[Any], Any]:
    """0 and less: no threshold."""
    shown = f"{text} [default: {default}]" if default > 0 else text
    return click.option(name, type=int, default=default, metavar=metavar, help=shown)


def regular_expression(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> re.Pattern[str] | None:
    try:
        return None if value is None else re.compile(value)
    except re.error as error:
        raise click.UsageError(f"{value!r} is not a regular expression: {error}") from None


def with_metadata(limits: dict[str, Any], info: dict[str, Any]) -> dict[str, Any]:
    """Thresholds in the metadata count unless the command line has them: `io.nats.monitor.lag-critical: 200`.

    Raises HeadraceError if one is not what it should be.
    """
    metadata = info["config"].get("metadata") or {}
    found: dict[str, Any] = {}
    for name, given in limits.items():
        text = metadata.get(METADATA + name.replace("_", "-"))
        if given or text is None:
            continue
        try:
            if isinstance(given, bool):
                found[name] = text.lower() in ("1", "t", "true")
            elif isinstance(given, float):
                found[name] = parse_duration(text) / NANOSECONDS
            else:
                found[name] = int(text)
        except ValueError as error:
            raise HeadraceError(f"could not configure based on metadata: {error}") from None
    return limits | found
