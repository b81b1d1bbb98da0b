"""`headrace check consumer`: what waits, what was not acknowledged, and when something happened last."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.arguments import name_of_stream
from headrace.cli.check.result import Result
from headrace.cli.check.runner import Report, report_options, run_check
from headrace.cli.check.thresholds import count_option, duration_option, with_metadata
from headrace.cli.human import duration, parse_time
from headrace.cli.target import Target, connection_options
from headrace.errors import HeadraceError
from headrace.go_formats import NANOSECONDS

if TYPE_CHECKING:
    from headrace.cli.jetstream.api import JetStream

COUNTS = (
    (
        "outstanding_ack_critical",
        "ack_pending",
        "num_ack_pending",
        "Ack Pending",
        "waiting to be Acknowledged",
    ),
    ("waiting_critical", "pull_waiting", "num_waiting", "Waiting Pulls", ""),
    (
        "unprocessed_critical",
        "pending",
        "num_pending",
        "Unprocessed Messages",
        "that have not yet been consumed",
    ),
    ("redelivery_critical", "redelivered", "num_redelivered", "Redelivered", "currently being redelivered"),
)
"""Threshold, name of the figure, field of the info, text, and what is counted."""
TIMES = (
    ("last_delivery_critical", "last_delivery", "delivered", "delivery", "delivered", "No deliveries"),
    ("last_ack_critical", "last_ack", "ack_floor", "ack", "acknowledged", "No acks"),
)


@click.command()
@connection_options
@click.option("--stream", required=True, callback=name_of_stream, metavar="NAME", help="Its stream.")
@click.option(
    "--consumer", required=True, callback=name_of_stream, metavar="NAME", help="The consumer to check."
)
@count_option("--outstanding-ack-critical", "Critical if this many acknowledgements are outstanding.", -1)
@count_option("--waiting-critical", "Critical if this many pull requests wait.", -1)
@count_option("--unprocessed-critical", "Critical if this many messages were not delivered.", -1)
@duration_option("--last-delivery-critical", None, "Critical if the last delivery was this long ago.")
@duration_option("--last-ack-critical", None, "Critical if the last acknowledgement was this long ago.")
@count_option("--redelivery-critical", "Critical if this many messages are redelivered.", -1)
@click.option("--pinned", is_flag=True, help="Critical unless all priority groups have a pinned client.")
@report_options
def consumer(target: Target, report: Report, stream: str, consumer: str, **limits: Any) -> int:
    """Check a consumer.

    Thresholds can be in the consumer's metadata, too, as io.nats.monitor.waiting-critical and so on; the
    command line overrides them.
    """

    async def work(result: Result, jetstream: JetStream) -> None:
        try:
            info = await jetstream.request(f"CONSUMER.INFO.{stream}.{consumer}")
        except HeadraceError as error:
            raise HeadraceError(f"could not load info: {error}") from None
        plain = {name: value if isinstance(value, bool) else max(0, value) for name, value in limits.items()}
        check_consumer(result, info, with_metadata(plain, info))

    return run_check(report, Result("consumer", f"{stream}_{consumer}"), target, work)


def check_consumer(result: Result, info: dict[str, Any], limits: dict[str, Any]) -> None:
    for limit, name, field, text, what in COUNTS:
        value, crit = info.get(field, 0), limits[limit]
        meaning = f"The number of messages {what}" if what else "The number of waiting Pull requests"
        result.measure(name, value, meaning, crit=crit)
        if crit > 0:
            result.compare(value, 0, crit, f"{text}: {value}")
    for limit, name, field, text, what, none in TIMES:
        crit, moment = limits[limit], (info.get(field) or {}).get("last_active")
        seconds = (time.time_ns() - parse_time(moment)) / NANOSECONDS if moment else 0.0
        if moment:
            result.measure(name, seconds, f"Seconds since the last message was {what}", crit=crit, unit="s")
        if crit > 0 and not moment:
            result.critical(none)
        elif crit > 0:
            result.compare(seconds, 0, crit, f"Last {text} {duration(round(seconds * NANOSECONDS))} ago")
    if limits["pinned"]:
        check_pinned(result, info)
    if not result.criticals and not result.oks:
        result.ok(f"{info.get('num_pending', 0)} unprocessed messages")


def check_pinned(result: Result, info: dict[str, Any]) -> None:
    groups = info["config"].get("priority_groups") or []
    pinned = sum(bool(group.get("pinned_client_id")) for group in info.get("priority_groups") or [])
    if not groups or info["config"].get("priority_policy") != "pinned_client":
        result.critical("Not pinned client priority mode")
    elif pinned != len(groups):
        result.critical(f"{pinned} / {len(groups)} pinned clients")
    else:
        result.ok(f"{pinned} pinned clients")
