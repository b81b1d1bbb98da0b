"""`headrace pub`: publish messages."""

from __future__ import annotations

import click

from headrace.cli.arguments import (
    Seconds,
    message_options,
    parse_headers,
    read_data,
    subject_to_publish,
)
from headrace.cli.output import plural, say
from headrace.cli.target import Target, connection_options


@click.command(
    epilog="""\b
Examples:
  headrace pub greet.anna 'Hello, Anna'
  headrace pub greet.anna -H 'Trace-Id: 7' --count 3 --interval 0.5 'Hello again'
  date | headrace pub clock.tick
"""
)
@click.argument("subject", callback=subject_to_publish)
@click.argument("data", required=False)
@connection_options
@message_options
@click.option("--reply", callback=subject_to_publish, metavar="SUBJECT", help="Reply subject.")
@click.option(
    "--count", "-n", type=click.IntRange(min=1), default=1, metavar="N", help="Publish N times. [default: 1]"
)
@click.option(
    "--interval",
    type=Seconds(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Wait between messages. [default: 0]",
)
def pub(
    target: Target,
    subject: str,
    data: str | None,
    headers: tuple[str, ...],
    path: str | None,
    reply: str | None,
    count: int,
    interval: float,
) -> int:
    """Publish DATA to SUBJECT.

    Without DATA, or with - as DATA, what is piped in is sent as one message, byte for byte.
    """
    import asyncio

    parsed = parse_headers(headers)
    payload = read_data(data, path)
    return asyncio.run(publish(target, subject, payload, parsed, reply or "", count, interval))


async def publish(
    target: Target,
    subject: str,
    payload: bytes,
    headers: dict[str, str] | None,
    reply: str,
    count: int,
    interval: float,
) -> int:
    """The exit code: 0 if the server has received all messages, 130 if interrupted before."""
    import asyncio

    from headrace.cli.nats_connection import Interrupted, connect

    published = 0
    async with connect(target) as connection:
        try:
            while published < count and not connection.interrupted.is_set():
                await connection.publish(subject, payload, reply, headers)
                published += 1
                if interval and published < count:
                    await connection.wait_for(asyncio.sleep(interval))
            await connection.flush()
        except Interrupted:
            pass
        if published < count:
            say(f"interrupted after {published:,} of {plural(count, 'message')}")
            return 130
    each = "" if count == 1 else " each"
    click.echo(f"Published {plural(count, 'message')} to {subject} ({plural(len(payload), 'byte')}{each})")
    return 0
