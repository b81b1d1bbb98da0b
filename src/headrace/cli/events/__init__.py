"""`headrace events`: print what JetStream and the server report, as it happens."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

import click

from headrace.cli.check.thresholds import regular_expression
from headrace.cli.target import Target, connection_options

if TYPE_CHECKING:
    from nats.aio.msg import Msg

ADVISORIES = ("$JS.EVENT.ADVISORY.>",)
METRICS = ("$JS.EVENT.METRIC.>",)
SYSTEM = (
    "$SYS.ACCOUNT.*.CONNECT",
    "$SYS.ACCOUNT.*.DISCONNECT",
    "$SYS.SERVER.*.CLIENT.AUTH.ERR",
    "$SYS.SERVER.*.SHUTDOWN",
    "$SYS.SERVER.*.LAMEDUCK",
)
FREQUENT = ("$SYS.ACCOUNT.*.SERVER.CONNS", "$SYS.SERVER.*.STATSZ")


@click.command(
    epilog="""\b
Examples:
  headrace events                       advisories of JetStream
  headrace events --creds sys.creds     those of the system account, too
  headrace events --filter ORDERS --json
"""
)
@connection_options
@click.option("--all", "-a", "everything", is_flag=True, help="Metrics and frequent reports, too.")
@click.option("--json", "-j", "as_json", is_flag=True, help="Write one JSON object per event.")
@click.option(
    "--filter", "pattern", callback=regular_expression, metavar="REGEX", help="Only events that match."
)
@click.option("--js-metric", is_flag=True, help="Metrics of JetStream, such as times of acknowledgements.")
@click.option(
    "--js-advisory/--no-js-advisory", default=True, help="Advisories of JetStream. [default: js-advisory]"
)
@click.option(
    "--srv-advisory/--no-srv-advisory",
    default=True,
    help="Connects, disconnects, failed logins; only the system account gets them. [default: srv-advisory]",
)
@click.option("--subjects", multiple=True, metavar="SUBJECT", help="Events of this subject; repeatable.")
@click.option("--count", "-n", type=click.IntRange(min=1), metavar="N", help="Stop after N events.")
def events(
    target: Target,
    everything: bool,
    as_json: bool,
    pattern: re.Pattern[str] | None,
    js_metric: bool,
    js_advisory: bool,
    srv_advisory: bool,
    subjects: tuple[str, ...],
    count: int | None,
) -> int:
    """Print events until Ctrl-C."""
    import asyncio

    from headrace.cli.arguments import check_subject

    chosen = [check_subject(subject, wildcards=True) for subject in subjects]
    chosen += ADVISORIES if js_advisory or everything else ()
    chosen += METRICS if js_metric or everything else ()
    chosen += SYSTEM if srv_advisory or everything else ()
    chosen += FREQUENT if everything else ()
    if not chosen:
        raise click.UsageError("no events were chosen")
    return asyncio.run(_print_events(target, chosen, pattern, as_json, count))


async def _print_events(
    target: Target, subjects: list[str], pattern: re.Pattern[str] | None, as_json: bool, count: int | None
) -> int:
    from headrace.cli.events.lines import json_line, line
    from headrace.cli.nats_connection import Interrupted, connect
    from headrace.cli.output import say
    from headrace.cli.subscriber import Printer

    printer = Printer(json_line if as_json else line, count)

    async def on_event(message: Msg) -> None:
        if pattern is None or pattern.search(f"{message.subject} {message.data.decode(errors='replace')}"):
            await printer.on_message(message)

    async with connect(target) as connection:
        connection.dispensable = "$SYS."
        printer.watch_reader()
        for subject in subjects:
            await connection.client.subscribe(subject, cb=on_event)
        await connection.flush()
        say(f"listening for events at {connection.address}; Ctrl-C stops")
        with contextlib.suppress(Interrupted):
            await connection.wait_for(printer.finished.wait())
    return 0
