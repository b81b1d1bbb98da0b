"""`headrace stream view` and `get`: look at messages without a consumer."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from headrace.cli.arguments import Sequence, name_of_stream, optional_filter
from headrace.cli.human import Moment
from headrace.cli.output import say
from headrace.cli.tables import json_option, print_json
from headrace.cli.target import Target, connection_options
from headrace.errors import UsageError

if TYPE_CHECKING:
    from headrace.cli.stream.api import Api
    from headrace.cli.stream.stored import StoredMessage

DEFAULT_PAGE = 10


@click.command(
    short_help="Show messages, page by page.",
    epilog="""\b
Examples:
  headrace stream view ORDERS                          page by page
  headrace stream view ORDERS --last 5
  headrace stream view ORDERS --since 1h --subject 'orders.eu.>'
  headrace stream view ORDERS --raw | jq .total        all payloads
""",
)
@click.argument("stream", callback=name_of_stream)
@click.argument("size", required=False, type=click.IntRange(min=1))
@connection_options
@click.option("--id", "start", type=click.IntRange(min=1), metavar="SEQ", help="Start at this sequence.")
@click.option("--since", type=Moment, metavar="TIME", help="Start at a time, or this long ago: 1h30m.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the last N messages.")
@click.option(
    "--subject", metavar="SUBJECT", callback=optional_filter, help="Only of this subject; wildcards allowed."
)
@click.option("--raw", is_flag=True, help="Only payloads, byte for byte, each followed by a line break.")
@json_option
def view(
    target: Target,
    stream: str,
    size: int | None,
    start: int | None,
    since: int | None,
    last: int | None,
    subject: str | None,
    raw: bool,
    as_json: bool,
) -> None:
    """Show the messages of STREAM, in pages of SIZE (default 10) on a terminal.

    Otherwise all are written, or SIZE of them.
    """
    if sum(option is not None for option in (start, since, last)) > 1:
        raise click.UsageError("use one of --id, --since and --last")
    if raw and as_json:
        raise click.UsageError("use either --raw or --json, not both")
    from headrace.cli.stream.api import open_api

    with open_api(target) as api:
        found = _selected(api, stream, start, since, last, subject or ">")
        if as_json:
            print_json([message.document for message in _limited(found, size)])
        elif sys.stdout.isatty() and sys.stdin.isatty() and not raw:
            _show_pages(found, size or DEFAULT_PAGE)
        else:
            for message in _limited(found, size):
                _write(message, raw=raw)


def _selected(
    api: Api, stream: str, start: int | None, since: int | None, last: int | None, subject: str
) -> Iterator[StoredMessage]:
    from headrace.cli.stream.stored import last_messages, messages, seq_since

    state = api.stream_info(stream)["state"]
    if last is not None:
        yield from last_messages(api, stream, state, last, subject)
        return
    first = start if since is None else seq_since(api, stream, state, since)
    yield from messages(api, stream, first or state["first_seq"], state["last_seq"], subject)


def _limited(found: Iterable[StoredMessage], count: int | None) -> Iterator[StoredMessage]:
    for number, message in enumerate(found):
        if number == count:
            return
        yield message


def _show_pages(found: Iterator[StoredMessage], size: int) -> None:
    """Asks before each further page. The next message is looked for first: no question without one."""
    shown = 0
    for message in found:
        if shown and shown % size == 0 and not click.confirm("Next page?", default=True, err=True):
            return
        _write(message, raw=False)
        shown += 1
    say("no messages" if not shown else "end of the stream")


def _write(message: StoredMessage, *, raw: bool) -> None:
    from headrace.cli.stream.stored import message_lines

    output = sys.stdout.buffer
    if raw:
        output.write(message.data + b"\n")
    else:
        output.write("".join(f"{line}\n" for line in message_lines(message)).encode(errors="replace"))
    if sys.stdout.isatty():
        output.flush()


@click.command(
    short_help="Show one message.",
    epilog="""\b
Examples:
  headrace stream get ORDERS 17
  headrace stream get ORDERS --last-for orders.eu.1
  headrace stream get ORDERS 17 --raw > payload
""",
)
@click.argument("stream", callback=name_of_stream)
@click.argument("seq", required=False, type=Sequence())
@connection_options
@click.option(
    "--last-for",
    "-S",
    metavar="SUBJECT",
    callback=optional_filter,
    help="The last message of this subject; wildcards allowed.",
)
@click.option("--raw", is_flag=True, help="Write only the payload, byte for byte.")
@json_option
def get(target: Target, stream: str, seq: int | None, last_for: str | None, raw: bool, as_json: bool) -> None:
    """Show one message of STREAM: that with the sequence SEQ, or the last one of a subject."""
    if (seq is None) == (last_for is None):
        raise click.UsageError("give either a sequence or --last-for")
    if raw and as_json:
        raise click.UsageError("use either --raw or --json, not both")
    from headrace.cli.stream.api import open_api
    from headrace.cli.stream.stored import get_message

    with open_api(target) as api:
        if seq is not None:
            message = get_message(api, stream, seq=seq)
        else:
            message = get_message(api, stream, last_by_subj=last_for)
        if message is None:
            raise _nothing(api, stream, seq, last_for)
    if as_json:
        print_json(message.document)
    elif raw:
        sys.stdout.buffer.write(message.data)
    else:
        _write(message, raw=False)


def _nothing(api: Api, stream: str, seq: int | None, subject: str | None) -> UsageError:
    state = api.stream_info(stream)["state"]
    if seq is None:
        return UsageError(f"the stream {stream} has no message of {subject}")
    if not state["messages"]:
        return UsageError(f"the stream {stream} has no messages")
    if state["first_seq"] <= seq <= state["last_seq"]:
        return UsageError(f"message {seq} of the stream {stream} was deleted")
    return UsageError(
        f"the stream {stream} has no message {seq}",
        hint=f"it has {state['first_seq']} to {state['last_seq']}",
    )
