"""Output: results go to stdout, everything about them to stderr, one line each."""

from __future__ import annotations

import contextlib
import os
import re
import sys

import click

from headrace.errors import UsageError

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def say(text: str) -> None:
    """One line on stderr."""
    with contextlib.suppress(OSError):
        print(f"headrace: {one_line(text)}", file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """The text with control characters escaped: messages must not control the user's terminal.

    Tabs and line ends stay.
    """
    return _UNPRINTABLE.sub(lambda match: repr(match.group())[1:-1], text)


def one_line(text: str) -> str:
    return " ".join(printable(text).splitlines())


def plural(count: int, noun: str) -> str:
    """`1 message`, `2 messages`, `12,000 messages`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def confirm(question: str, *, force: bool) -> None:
    """Ask before something that cannot be undone; `force` means yes.

    Raises UsageError if there is nobody to ask, and click.Abort (exit code 130) if the answer is no.
    """
    if force:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f"{question} There is nobody to ask: stdin is not a terminal", hint="say yes with --force"
        )
    click.confirm(f"headrace: {one_line(question)}", abort=True, err=True)


def give_up_stdout() -> None:
    """After a broken pipe: discard buffered output, instead of failing again at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
