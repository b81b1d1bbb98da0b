"""`headrace stream backup` and `restore`: a directory as the nats tool writes and reads it.

    backup.json     configuration and state
    stream.tar.s2   what the server sends: messages and consumers

The options; the protocol is in snapshots.py.
"""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.arguments import name_of_stream
from headrace.cli.human import Size, size
from headrace.cli.output import plural, say
from headrace.cli.stream.settings import read_config
from headrace.cli.stream.showing import show_stream
from headrace.cli.tables import json_option, print_json
from headrace.cli.target import Target, connection_options
from headrace.errors import UsageError

progress_option = click.option(
    "--progress/--no-progress", default=True, help="Show how far it is, on a terminal. [default: yes]"
)


@click.command(short_help="Write a backup of a stream to a directory.")
@click.argument("stream", callback=name_of_stream)
@click.argument("directory", metavar="DIR")
@connection_options
@click.option("--consumers/--no-consumers", default=True, help="Include consumers. [default: yes]")
@click.option("--check", is_flag=True, help="Have the server verify all messages first.")
@click.option("--chunk-size", type=Size, metavar="SIZE", help="Bytes per message. [default: 128KB]")
@click.option("--window-size", type=Size, metavar="SIZE", help="Bytes that the server sends ahead.")
@progress_option
def backup(
    target: Target,
    stream: str,
    directory: str,
    consumers: bool,
    check: bool,
    chunk_size: int | None,
    window_size: int | None,
    progress: bool,
) -> None:
    """Write a backup of STREAM, messages and consumers, to the directory DIR."""
    from headrace.cli.stream.api import open_api
    from headrace.cli.stream.snapshots import take_snapshot

    request: dict[str, Any] = {"no_consumers": not consumers, "jsck": check}
    sizes = {"chunk_size": chunk_size, "window_size": window_size}
    request |= {name: count for name, count in sizes.items() if count}
    with open_api(target) as api:
        state, count = take_snapshot(api, stream, directory, request, shown=progress)
    messages = plural(state["messages"], "message")
    say(f"backed up the stream {stream} with {messages} to {directory} ({size(count)})")


@click.command()
@click.argument("directory", metavar="DIR")
@connection_options
@click.option("--config", metavar="FILE", help="Another configuration, in a JSON file; the name stays.")
@click.option("--cluster", metavar="NAME", help="Place it in this cluster.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Place it on servers with this tag.")
@click.option("--replicas", type=click.IntRange(min=1), metavar="N", help="Copies in a cluster.")
@progress_option
@json_option
def restore(
    target: Target,
    directory: str,
    config: str | None,
    cluster: str | None,
    tags: tuple[str, ...],
    replicas: int | None,
    progress: bool,
    as_json: bool,
) -> None:
    """Re-create a stream from the backup in the directory DIR."""
    from headrace.cli.stream.api import open_api
    from headrace.cli.stream.snapshots import read_backup, restore_snapshot

    backed_up = read_backup(directory)
    wanted: dict[str, Any] = read_config(config) if config else dict(backed_up["config"])
    if wanted.get("name") != backed_up["config"]["name"]:
        raise UsageError("a stream keeps its name when it is restored", hint="copy it afterwards")
    placement = {"cluster": cluster, "tags": list(tags)}
    if any(placement.values()):
        wanted["placement"] = {name: value for name, value in placement.items() if value}
    if replicas:
        wanted["num_replicas"] = replicas
    with open_api(target) as api:
        created = restore_snapshot(
            api, directory, {"config": wanted, "state": backed_up["state"]}, shown=progress
        )
    if as_json:
        print_json(created)
    else:
        count = plural(created["state"]["messages"], "message")
        say(f"restored the stream {wanted['name']} with {count}")
        show_stream(created)
