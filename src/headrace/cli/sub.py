"""`headrace sub`: subscribe, and print what arrives."""

from __future__ import annotations

import click

from headrace.cli.arguments import (
    Seconds,
    output_options,
    queue_group,
    subject_to_subscribe,
)
from headrace.cli.messages import choose_format
from headrace.cli.target import Target, connection_options


@click.command(
    epilog="""\b
Examples:
  headrace sub 'greet.*'                 one token, as in greet.anna
  headrace sub 'orders.>' --json         any rest, as in orders.eu.paid
  headrace sub jobs --queue workers      share them with others
  headrace sub backup -n 1 --raw > file  the payload of one message
"""
)
@click.argument("subject", callback=subject_to_subscribe)
@connection_options
@click.option(
    "--queue",
    "-q",
    callback=queue_group,
    metavar="GROUP",
    help="Join a queue group: each message goes to one member.",
)
@click.option("--count", "-n", type=click.IntRange(min=1), metavar="N", help="Stop after N messages.")
@click.option(
    "--timeout",
    type=Seconds(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop when no message has arrived for this long; exit code 1 if --count was not reached.",
)
@output_options
def sub(
    target: Target,
    subject: str,
    queue: str | None,
    count: int | None,
    timeout: float | None,
    raw: bool,
    as_json: bool,
    headers_only: bool,
) -> int:
    """Print the messages published to SUBJECT until Ctrl-C.

    Messages go to stdout, everything else to stderr.
    """
    form = choose_format(raw=raw, as_json=as_json, headers_only=headers_only)
    import asyncio

    from headrace.cli.subscriber import Printer, subscribe

    return asyncio.run(subscribe(target, subject, queue or "", count, timeout, Printer(form, count)))
