"""`headrace consumer pause`, `resume` and `rm`."""

from __future__ import annotations

import click

from headrace.cli.consumer.arguments import consumer_arguments
from headrace.cli.consumer.settings import until as parse_until
from headrace.cli.human import duration, moment
from headrace.cli.output import confirm, say
from headrace.cli.stream.changing import force_option
from headrace.cli.tables import json_option, print_json
from headrace.cli.target import Target, connection_options
from headrace.errors import UsageError


@click.command(
    epilog="""\b
Examples:
  headrace consumer pause ORDERS BILLING 30m
  headrace consumer pause ORDERS BILLING '2026-12-01 06:00:00'
"""
)
@consumer_arguments
@click.argument("until")
@connection_options
@force_option
@json_option
def pause(target: Target, stream: str, consumer: str, until: str, force: bool, as_json: bool) -> None:
    """Deliver nothing for a duration, or until a time.

    The time is in UTC unless it says otherwise.
    """
    from headrace.cli.stream.api import open_api

    end = parse_until(until)
    with open_api(target) as api:
        api.consumer_info(stream, consumer)
        confirm(f"Really pause the consumer {consumer} of {stream} until {moment(end)}?", force=force)
        body = {"pause_until": end}
        answer = api.call(f"CONSUMER.PAUSE.{stream}.{consumer}", body, what=f"stream {stream}")
    if not answer.get("paused"):
        raise UsageError(f"the consumer {consumer} is not paused: {moment(end)} is in the past")
    if as_json:
        print_json(answer)
    else:
        left = duration(answer.get("pause_remaining", 0))
        say(f"paused the consumer {consumer} of {stream} until {moment(answer['pause_until'])} ({left})")


@click.command()
@consumer_arguments
@connection_options
@force_option
@json_option
def resume(target: Target, stream: str, consumer: str, force: bool, as_json: bool) -> None:
    """Resume a paused consumer."""
    from headrace.cli.stream.api import open_api

    with open_api(target) as api:
        info = api.consumer_info(stream, consumer)
        if info.get("paused"):
            confirm(f"Really resume the consumer {consumer} of {stream}?", force=force)
        answer = api.call(f"CONSUMER.PAUSE.{stream}.{consumer}", {}, what=f"stream {stream}")
    if as_json:
        print_json(answer)
    elif info.get("paused"):
        say(f"resumed the consumer {consumer} of {stream}")
    else:
        say(f"the consumer {consumer} of {stream} was not paused")


@click.command()
@consumer_arguments
@connection_options
@force_option
def rm(target: Target, stream: str, consumer: str, force: bool) -> None:
    """Remove a consumer. The stream keeps its messages."""
    from headrace.cli.stream.api import open_api

    with open_api(target) as api:
        api.consumer_info(stream, consumer)
        confirm(f"Really remove the consumer {consumer} of {stream}?", force=force)
        api.call(f"CONSUMER.DELETE.{stream}.{consumer}", what=f"stream {stream}")
    say(f"removed the consumer {consumer} of {stream}")
