"""`headrace consumer next`: the next messages of a pull consumer, acknowledged after they are written."""

from __future__ import annotations

import base64
import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.consumer.arguments import consumer_arguments
from headrace.cli.human import Duration, duration
from headrace.cli.output import plural, say
from headrace.cli.tables import json_option, print_json
from headrace.cli.target import Target, connection_options
from headrace.errors import HeadraceError
from headrace.go_formats import NANOSECONDS, format_time

if TYPE_CHECKING:
    from headrace.cli.stream.api import Api
    from headrace.client.connection import ServerConnection
    from headrace.client.frames import Event

GRACE_SECONDS = 2.0  # the server ends a pull itself, a little later than we asked
CONFIRMATION_SECONDS = 10.0
TOKENS = 9
ANSWERS = {"ack": b"+ACK", "nak": b"-NAK", "term": b"+TERM"}
DONE = {"ack": "acknowledged", "nak": "negatively acknowledged", "term": "terminated"}


class NothingReceived(HeadraceError):
    """There was no message, or not enough of them, in time."""


@click.command(
    "next",
    epilog="""\b
Examples:
  headrace consumer next ORDERS BILLING
  headrace consumer next ORDERS BILLING --count 10 --no-ack
  headrace consumer next ORDERS BILLING --raw --timeout 1m
""",
)
@consumer_arguments
@connection_options
@click.option("--count", default=1, type=click.IntRange(min=1), metavar="N", help="How many. [default: 1]")
@click.option("--ack/--no-ack", default=None, help="Acknowledge them. [default: yes]")
@click.option("--nak", is_flag=True, help="Acknowledge negatively: deliver them again.")
@click.option("--term", is_flag=True, help="Terminate them: never deliver them again.")
@click.option("--wait", type=Duration, metavar="DURATION", help="Acknowledge after a random time up to this.")
@click.option("--timeout", type=Duration, default="5s", metavar="DURATION",
              help="How long to wait for messages. [default: 5s]")  # fmt: skip
@click.option("--raw", "-r", is_flag=True, help="Write only payloads, each followed by a line break.")
@json_option
def next_(
    target: Target,
    stream: str,
    consumer: str,
    count: int,
    ack: bool | None,
    nak: bool,
    term: bool,
    wait: int | None,
    timeout: int,
    raw: bool,
    as_json: bool,
) -> None:
    """Read the next messages of a pull consumer."""
    if sum((bool(ack), nak, term)) > 1:
        raise click.UsageError("use one of --ack, --nak and --term")
    if raw and as_json:
        raise click.UsageError("use either --raw or --json, not both")
    answer = "nak" if nak else "term" if term else "" if ack is False else "ack"
    import random

    from headrace.cli.stream.api import open_api

    documents = []
    with open_api(target) as api, api.client.connection() as connection:
        for event in _pull(api, connection, stream, consumer, count, timeout):
            documents.append(_document(event))
            if not as_json:
                _write(documents[-1], raw=raw)
            if answer:
                if wait:
                    time.sleep(random.uniform(0, wait / NANOSECONDS))
                _answer(connection, event, ANSWERS[answer], is_last=len(documents) == count)
        connection.flush(api.client.request_timeout)
    if as_json:
        print_json(documents)
    elif not raw and documents:
        say(f"{plural(len(documents), 'message')} {DONE.get(answer, 'not acknowledged')}")
    if len(documents) < count:
        missing = "no message" if not documents else f"{len(documents)} of {plural(count, 'message')}"
        raise NothingReceived(f"{missing} in {duration(timeout)}")


def _pull(
    api: Api, connection: ServerConnection, stream: str, consumer: str, count: int, timeout: int
) -> Iterator[Event]:
    """The messages, up to `count`; ends when the server says that there are no more in time."""
    import secrets

    from headrace.client.api import PREFIX, encode
    from headrace.client.status import HEARTBEAT, NO_RESPONDERS, TIMEOUT, parse_status

    inbox = f"_INBOX.{secrets.token_hex(11)}"
    sid = connection.subscribe(inbox)
    body = encode({"batch": count, "expires": timeout})
    connection.publish(f"{PREFIX}.CONSUMER.MSG.NEXT.{stream}.{consumer}", body, inbox)
    deadline = time.monotonic() + timeout / NANOSECONDS + GRACE_SECONDS
    received = 0
    while received < count:
        event = connection.frames.next(max(deadline - time.monotonic(), 0))
        if event is None:
            break
        if event.sid != sid:
            connection.handle(event)
            continue
        status = parse_status(event.headers)
        if event.reply.startswith(b"$JS.ACK."):
            received += 1
            yield event
        elif status.code == NO_RESPONDERS:
            api.consumer_info(stream, consumer)  # says what is missing
            raise NothingReceived(f"the consumer {consumer} of {stream} does not answer")
        elif status.code == TIMEOUT:
            break
        elif status.code != HEARTBEAT:
            raise NothingReceived(f"the consumer {consumer} of {stream} refused: {status.text}")
    connection.unsubscribe(sid)


def _answer(connection: ServerConnection, event: Event, answer: bytes, *, is_last: bool) -> None:
    """Acknowledge. The last one is confirmed, and with it those before: the server handles them in order.

    Not the others: what arrives while a request waits would be lost.
    """
    from headrace.client import NoResponders

    subject = event.reply.decode(errors="replace")
    if not is_last:
        connection.publish(subject, answer)
        return
    with contextlib.suppress(NoResponders):  # the consumer has no acknowledgements
        connection.request(subject, answer, CONFIRMATION_SECONDS)


def _document(event: Event) -> dict[str, Any]:
    """A message with the fields of the API, and what its reply subject says of the delivery."""
    tokens = event.reply.decode(errors="replace").split(".")
    first = 4 if len(tokens) == TOKENS else 6  # others begin with a domain and an account
    try:
        delivered, stream_seq, consumer_seq, stamp, pending = map(int, tokens[first : first + 5])
    except ValueError:
        raise NothingReceived(f"a message has an unknown reply subject: {'.'.join(tokens)}") from None
    document: dict[str, Any] = {"subject": event.subject.decode(errors="replace")}
    document |= {"seq": stream_seq, "time": format_time(stamp), "consumer_seq": consumer_seq}
    document |= {"deliveries": delivered, "pending": pending}
    if event.headers:
        document["hdrs"] = base64.b64encode(event.headers).decode()
    if event.payload:
        document["data"] = base64.b64encode(event.payload).decode()
    return document


def _write(document: dict[str, Any], *, raw: bool) -> None:
    from headrace.cli.stream.stored import StoredMessage, message_lines

    message = StoredMessage(document)
    if raw:
        sys.stdout.buffer.write(message.data + b"\n")
    else:
        first, *rest = message_lines(message)
        first += f", delivery {document['deliveries']}, {document['pending']:,} pending"
        sys.stdout.buffer.write("".join(f"{line}\n" for line in (first, *rest)).encode(errors="replace"))
    sys.stdout.buffer.flush()
