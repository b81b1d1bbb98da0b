"""`headrace consumer ls`: the consumers of a stream, with how far they are."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.arguments import name_of_stream
from headrace.cli.human import age, moment
from headrace.cli.output import say
from headrace.cli.tables import Column, json_option, print_json, print_lines, table
from headrace.cli.target import Target, connection_options

COLUMNS = [
    Column("Name", flexible=True),
    Column("Mode"),
    Column("Ack Pending", number=True),
    Column("Redelivered", number=True, optional=1),
    Column("Pending", number=True),
    Column("Last Delivery", number=True),
    Column("Filter", flexible=True, optional=2),
    Column("Ack Policy", optional=3),
    Column("Waiting", number=True, optional=4),
    Column("Created", optional=5),
    Column("Description", flexible=True, optional=6),
]


@click.command()
@click.argument("stream", callback=name_of_stream)
@connection_options
@click.option("--names", "-n", is_flag=True, help="Only names, one per line.")
@json_option
def ls(target: Target, stream: str, names: bool, as_json: bool) -> None:
    """List the consumers of STREAM."""
    from headrace.cli.stream.api import open_api

    with open_api(target) as api:
        if names:
            listed = api.consumer_names(stream)
            return print_json(listed) if as_json else print_lines(listed)
        consumers = api.consumers(stream)
    if as_json:
        print_json(consumers)
    elif consumers:
        table(COLUMNS, map(_row, consumers))
    else:
        say(f"the stream {stream} has no consumers; create one with `headrace consumer add {stream}`")
    return None


def _row(info: dict[str, Any]) -> list[str | int]:
    config = info["config"]
    return [
        info["name"],
        mode_of(info),
        info["num_ack_pending"],
        info["num_redelivered"],
        info["num_pending"],
        age((info.get("delivered") or {}).get("last_active") or ""),
        filter_of(config),
        config["ack_policy"],
        info["num_waiting"],
        moment(info.get("created", "")),
        config.get("description", ""),
    ]


def mode_of(info: dict[str, Any]) -> str:
    kind = "push" if info["config"].get("deliver_subject") else "pull"
    return f"{kind}, paused" if info.get("paused") else kind


def filter_of(config: dict[str, Any]) -> str:
    subjects = config.get("filter_subjects") or [config.get("filter_subject", "")]
    return ", ".join(subject for subject in subjects if subject)
