"""`headrace stream ls`: the streams, as a table, as names, or as the documents of the API."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.arguments import optional_filter
from headrace.cli.human import age, moment, size
from headrace.cli.output import plural, say
from headrace.cli.tables import Column, json_option, print_json, print_lines, table
from headrace.cli.target import Target, connection_options

COLUMNS = [
    Column("Name", flexible=True),
    Column("Subjects", flexible=True, optional=1),
    Column("Messages", number=True),
    Column("Size", number=True),
    Column("Consumers", number=True),
    Column("Last Message", number=True),
    Column("Storage", optional=2),
    Column("Replicas", number=True, optional=4),
    Column("Created", optional=3),
    Column("Description", flexible=True, optional=5),
]


@click.command()
@connection_options
@click.option(
    "--subject",
    metavar="SUBJECT",
    callback=optional_filter,
    help="Only streams that store messages of this subject; wildcards allowed.",
)
@click.option("--names", "-n", is_flag=True, help="Only names, one per line.")
@click.option("--all", "-a", "show_all", is_flag=True, help="Also those of key-value, object store and MQTT.")
@json_option
def ls(target: Target, subject: str | None, names: bool, show_all: bool, as_json: bool) -> None:
    """List streams."""
    from headrace.cli.stream.api import is_system_stream, open_api

    with open_api(target) as api:
        streams = api.streams(subject or "")
    shown = [info for info in streams if show_all or not is_system_stream(info["config"]["name"])]
    if names and as_json:
        print_json([info["config"]["name"] for info in shown])
    elif names:
        print_lines(str(info["config"]["name"]) for info in shown)
    elif as_json:
        print_json(shown)
    elif shown:
        table(COLUMNS, map(_row, shown))
    else:
        hidden = f" ({plural(len(streams), 'system stream')}: --all shows them)" if streams else ""
        say(f"no streams{hidden}; create one with `headrace stream add`")


def _row(info: dict[str, Any]) -> list[str | int]:
    config, state = info["config"], info["state"]
    return [
        config["name"],
        ", ".join(config.get("subjects") or []) or origin_of(config),
        state["messages"],
        size(state["bytes"]),
        state["consumer_count"],
        age(state.get("last_ts", "")),
        config["storage"],
        config["num_replicas"],
        moment(info.get("created", "")),
        config.get("description", ""),
    ]


def origin_of(config: dict[str, Any]) -> str:
    """Where a stream without subjects gets its messages from."""
    if config.get("mirror"):
        return f"mirror of {config['mirror']['name']}"
    if config.get("sources"):
        return f"from {', '.join(source['name'] for source in config['sources'])}"
    return ""
