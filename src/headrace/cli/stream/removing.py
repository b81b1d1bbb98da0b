"""`headrace stream rm` and `purge`: what cannot be undone asks first, unless `--force` says yes."""

from __future__ import annotations

import click

from headrace.cli.arguments import name_of_stream, optional_filter
from headrace.cli.output import confirm, plural, say
from headrace.cli.stream.changing import force_option
from headrace.cli.stream.showing import show_stream
from headrace.cli.tables import json_option, print_json
from headrace.cli.target import Target, connection_options


@click.command()
@click.argument("stream", callback=name_of_stream)
@connection_options
@force_option
def rm(target: Target, stream: str, force: bool) -> None:
    """Remove STREAM with all its messages and consumers."""
    from headrace.cli.stream.api import open_api

    with open_api(target) as api:
        count = api.stream_info(stream)["state"]["messages"]
        confirm(f"Really remove the stream {stream} with {plural(count, 'message')}?", force=force)
        api.call(f"STREAM.DELETE.{stream}", what=f"stream {stream}")
    say(f"removed the stream {stream}")


@click.command(
    epilog="""\b
Examples:
  headrace stream purge ORDERS                         all messages
  headrace stream purge ORDERS --subject 'orders.eu.>' those of a subject
  headrace stream purge ORDERS --seq 1000              those before 1000
  headrace stream purge ORDERS --keep 10               all but the last 10
"""
)
@click.argument("stream", callback=name_of_stream)
@connection_options
@click.option(
    "--subject", metavar="SUBJECT", callback=optional_filter, help="Only of this subject; wildcards allowed."
)
@click.option("--seq", type=click.IntRange(min=1), metavar="SEQ", help="Only messages before this sequence.")
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Keep the last N messages.")
@force_option
@json_option
def purge(
    target: Target,
    stream: str,
    subject: str | None,
    seq: int | None,
    keep: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Remove messages of STREAM, all by default."""
    if seq is not None and keep is not None:
        raise click.UsageError("use either --seq or --keep, not both")
    from headrace.cli.stream.api import open_api

    given = {"filter": subject, "seq": seq, "keep": keep}
    with open_api(target) as api:
        count = api.stream_info(stream)["state"]["messages"]
        limits = "" if any(given.values()) else f", all {plural(count, 'message')}"
        confirm(f"Really purge the stream {stream}{limits}?", force=force)
        answer = api.call(
            f"STREAM.PURGE.{stream}",
            {name: value for name, value in given.items() if value is not None},
            what=f"stream {stream}",
        )
        after = api.stream_info(stream)
    if as_json:
        print_json(answer)
    else:
        say(f"purged {plural(answer['purged'], 'message')} of {stream}")
        show_stream(after, state_only=True)
