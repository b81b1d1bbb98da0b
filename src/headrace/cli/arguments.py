"""Options and arguments that several commands share: the server, subjects, headers, data.

Everything is checked here, before a connection is made, so that a typo is reported at once.
"""

from __future__ import annotations

import math
import os
import re
import stat
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from headrace.errors import UsageError

SCHEMES = ("nats", "tls", "ws", "wss")
MAX_SEQUENCE_DIGITS = 20
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_BLANK = re.compile(r"\s")

Command = TypeVar("Command", bound=Callable[..., Any])


def check_subject(subject: str, *, wildcards: bool) -> str:
    """The subject. Raises UsageError if it is not valid."""
    if not subject:
        raise UsageError("the subject is empty")
    if _BLANK.search(subject) or "\0" in subject:
        raise UsageError(f"subject {subject!r} contains a space: separate tokens with dots")
    tokens = subject.split(".")
    if "" in tokens:
        raise UsageError(f"subject {subject!r} has an empty token: dots go between tokens")
    if not wildcards:
        if "*" in tokens or ">" in tokens:
            raise UsageError(
                f"subject {subject!r} contains a wildcard, which is only allowed in subscriptions"
            )
        return subject
    if ">" in tokens[:-1]:
        raise UsageError(f"subject {subject!r} has `>` before the end: it must be the last token")
    if any(len(token) > 1 and ("*" in token or ">" in token) for token in tokens):
        raise UsageError(f"subject {subject!r} has a wildcard as part of a token: it must be a whole token")
    return subject


def subject_to_publish(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    return value if value is None else _checked(value, wildcards=False)


def subject_to_subscribe(ctx: click.Context, param: click.Parameter, value: str) -> str:
    return _checked(value, wildcards=True)


def _checked(subject: str, *, wildcards: bool) -> str:
    try:
        return check_subject(subject, wildcards=wildcards)
    except UsageError as error:
        raise click.UsageError(str(error)) from None


def queue_group(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and (not value or _BLANK.search(value)):
        raise click.UsageError(f"queue group {value!r} must be one word")
    return value


def name_of_stream(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[^\s.*>/\\\0]{1,255}", value):
        raise click.UsageError(f"stream name {value!r} must be one word without . * > / or \\")
    return value


def split_servers(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """URLs, separated by commas; nats-py completes `host`, `host:port` and `nats://host`."""
    servers = tuple(part.strip() for part in value.split(",") if part.strip())
    if not servers:
        raise click.UsageError("--server is empty")
    for server in servers:
        scheme, separator, _ = server.partition("://")
        if separator and scheme.lower() not in SCHEMES:
            raise click.UsageError(f"--server: a URL starts with nats://, not with {scheme}://")
    return servers


class Seconds(click.FloatRange):
    """A finite number of seconds; Python reads `nan` and `inf` as numbers, too."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return seconds


class Sequence(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """The number of a message in a stream."""

    name = "sequence"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value)
        is_number = text.isascii() and text.isdigit() and len(text) <= MAX_SEQUENCE_DIGITS
        if not is_number or not 0 < int(text) < 1 << 64:
            self.fail(f"{text!r} is not a sequence: give a number such as 42", param, ctx)
        return int(text)


def parse_headers(lines: tuple[str, ...]) -> dict[str, str] | None:
    """From `Key: value` lines; None if there are none. Raises UsageError."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.strip()
        if not colon:
            raise click.UsageError(f"header {line!r} has no colon: write it as 'Name: value'")
        if not _HEADER_NAME.fullmatch(name):
            raise click.UsageError(
                f"header name {name!r} may contain only letters, digits and characters such as - _ ."
            )
        if name in headers:
            raise click.UsageError(f"header {name!r} is given twice: each name can be used once")
        if not value.isprintable():
            raise click.UsageError(
                f"header {name!r} has a line break or other control character in its value"
            )
        headers[name] = value.strip()
    return headers or None


def read_data(data: str | None, path: str | None) -> bytes:
    """The payload: the argument, the file, or stdin (`-`, or no argument at all)."""
    if path is not None:
        if data is not None:
            raise click.UsageError("use either DATA or --file, not both")
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if data == "-" or (data is None and _stdin_is_piped()):
        return sys.stdin.buffer.read()
    return os.fsencode(data or "")


def _stdin_is_piped() -> bool:
    """Whether stdin is a pipe or a file. "Not a terminal" is not enough: there may be no stdin."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def message_options(command: Command) -> Command:
    """Adds --header and --file, for the commands that send."""
    for option in reversed(
        (
            click.option(
                "--header",
                "-H",
                "headers",
                multiple=True,
                metavar="'NAME: VALUE'",
                help="Header to send; repeatable.",
            ),
            click.option("--file", "path", metavar="FILE", help="Send the content of this file."),
        )
    ):
        command = option(command)
    return command


def output_options(command: Command) -> Command:
    """Adds --raw, --json and --headers-only, for the commands that receive."""
    for option in reversed(
        (
            click.option("--raw", is_flag=True, help="Write only the payloads, byte for byte."),
            click.option("--json", "as_json", is_flag=True, help="Write one JSON object per message."),
            click.option("--headers-only", is_flag=True, help="Omit payloads."),
        )
    ):
        command = option(command)
    return command


def optional_filter(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A subject with wildcards, or None if the option was not given."""
    return value if value is None else _checked(value, wildcards=True)
