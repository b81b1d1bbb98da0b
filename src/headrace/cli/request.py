"""`headrace request`: send a request and print the replies."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from headrace.cli.arguments import (
    Seconds,
    message_options,
    output_options,
    parse_headers,
    read_data,
    subject_to_publish,
)
from headrace.cli.messages import Format, choose_format
from headrace.cli.target import Target, connection_options
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from nats.aio.msg import Msg

NO_RESPONDERS = "503"


@click.command(
    epilog="""\b
Examples:
  headrace request time.now
  headrace request add '{"a": 1, "b": 2}' --raw
  headrace request who.is.there --replies 0 --timeout 1   all within a second
"""
)
@click.argument("subject", callback=subject_to_publish)
@click.argument("data", required=False)
@connection_options
@message_options
@click.option(
    "--timeout",
    type=Seconds(min=0, min_open=True),
    default=5.0,
    metavar="SECONDS",
    help="How long to wait for replies. [default: 5]",
)
@click.option(
    "--replies",
    "--count",
    "-n",
    type=click.IntRange(min=0),
    default=1,
    metavar="N",
    help="Wait for N replies; 0: all that arrive in time. [default: 1]",
)
@output_options
def request(
    target: Target,
    subject: str,
    data: str | None,
    headers: tuple[str, ...],
    path: str | None,
    timeout: float,
    replies: int,
    raw: bool,
    as_json: bool,
    headers_only: bool,
) -> int:
    """Send DATA to SUBJECT and print the reply.

    Without DATA, or with - as DATA, what is piped in is sent, byte for byte.
    """
    import asyncio

    form = choose_format(raw=raw, as_json=as_json, headers_only=headers_only)
    parsed = parse_headers(headers)
    payload = read_data(data, path)
    return asyncio.run(ask(target, subject, payload, parsed, timeout, replies, form))


async def ask(
    target: Target,
    subject: str,
    payload: bytes,
    headers: dict[str, str] | None,
    timeout: float,
    replies: int,
    form: Format,
) -> int:
    """The exit code: 0 if all expected replies arrived. Raises HeadraceError if not."""
    import asyncio

    from headrace.cli.nats_connection import Interrupted, connect

    received = 0
    async with connect(target) as connection:
        client = connection.client
        inbox = client.new_inbox()
        answers: asyncio.Queue[Msg] = asyncio.Queue()
        await client.subscribe(inbox, cb=answers.put)
        await connection.publish(subject, payload, inbox, headers)
        deadline = asyncio.get_running_loop().time() + timeout
        try:
            while not replies or received < replies:
                rest = max(deadline - asyncio.get_running_loop().time(), 0)
                message = await connection.wait_for(answers.get(), rest)
                if is_no_responders(message):
                    raise HeadraceError(f"no responders on {subject}", hint="is the service running?")
                received += 1
                sys.stdout.buffer.write(form(received, message))
                sys.stdout.buffer.flush()
        except TimeoutError:
            if not received:
                raise HeadraceError(f"no reply from {subject} within {timeout:g} s") from None
            if received < replies:
                came = f"{received:,} of {replies:,} replies"
                raise HeadraceError(f"only {came} from {subject} within {timeout:g} s") from None
        except Interrupted:
            return 130
    return 0


def is_no_responders(message: Msg) -> bool:
    """The server's reply if nobody has subscribed to the subject."""
    return not message.data and (message.headers or {}).get("Status") == NO_RESPONDERS
