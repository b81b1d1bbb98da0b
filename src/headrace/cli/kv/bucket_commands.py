"""`headrace kv ls`, `add` and `info`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.human import Duration, Size, age, duration, size, size_limit
from headrace.cli.kv.names import bucket_name, key_pattern
from headrace.cli.tables import Column, facts, json_option, print_json, table
from headrace.cli.target import Target, connection_options

if TYPE_CHECKING:
    from headrace.cli.jetstream.api import JetStream
    from headrace.cli.kv.bucket import Entry
    from headrace.client.errors import ApiError

NAME_IN_USE = 10058
"""JetStream's number of the error."""
BUCKETS = [
    Column("Bucket", flexible=True),
    Column("Description", flexible=True, optional=2),
    Column("Created", optional=1),
    Column("Size", number=True),
    Column("Values", number=True),
    Column("Last update", number=True),
]
KEYS = [
    Column("Key", flexible=True),
    Column("Revision", number=True),
    Column("Created", optional=1),
    Column("Length", number=True),
]


@click.command(
    epilog="""\b
Examples:
  headrace kv ls                  all buckets
  headrace kv ls config           the keys of a bucket
  headrace kv ls config 'db.>'    the keys below db
"""
)
@click.argument("bucket", required=False, callback=bucket_name)
@click.argument("key", required=False, callback=key_pattern)
@connection_options
@click.option("--names", "-n", is_flag=True, help="Show only the names of buckets, one per line.")
@click.option("--verbose", "-v", is_flag=True, help="Show revision, time and length of each key.")
@click.option("--display-value", is_flag=True, help="With --verbose: show the values, too.")
@json_option
def ls(
    target: Target,
    bucket: str | None,
    key: str | None,
    names: bool,
    verbose: bool,
    display_value: bool,
    as_json: bool,
) -> int:
    """List the buckets, or the keys of BUCKET, or those that match KEY."""
    from headrace.cli.jetstream.api import run_with_jetstream

    async def work(jetstream: JetStream) -> None:
        if bucket is None:
            await _list_buckets(jetstream, names, as_json)
        else:
            await _list_keys(jetstream, bucket, key or ">", verbose, display_value, as_json)

    return run_with_jetstream(target, work)


async def _list_buckets(jetstream: JetStream, names: bool, as_json: bool) -> None:
    from headrace.cli.jetstream.shown import local_time
    from headrace.cli.kv.bucket import PREFIX, list_buckets
    from headrace.client.api import parse_time

    found = sorted(await list_buckets(jetstream), key=lambda info: str(info["config"]["name"]))
    if as_json:
        print_json([describe(info) for info in found])
    elif names:
        for info in found:
            click.echo(info["config"]["name"].removeprefix(PREFIX))
    elif not found:
        click.echo("No buckets found")
    else:
        table(
            BUCKETS,
            [
                (
                    info["config"]["name"].removeprefix(PREFIX),
                    info["config"].get("description", ""),
                    local_time(parse_time(info["created"])),
                    size(info["state"]["bytes"]),
                    info["state"]["messages"],
                    age(info["state"]["last_ts"]),
                )
                for info in found
            ],
        )


async def _list_keys(
    jetstream: JetStream, name: str, pattern: str, verbose: bool, values: bool, as_json: bool
) -> None:
    from headrace.cli.jetstream.shown import local_time, text_of
    from headrace.cli.kv.bucket import open_bucket
    from headrace.cli.kv.shown import json_entry

    bucket = await open_bucket(jetstream, name)
    with_values = values and (verbose or as_json)
    found: list[Entry]
    if with_values:
        last = {entry.key: entry for entry in await bucket.entries(pattern)}
        found = [entry for entry in last.values() if not entry.is_removal]
    else:
        found = await bucket.keys(pattern)
    found.sort(key=lambda entry: entry.key)
    if as_json:
        print_json([json_entry(entry, value=with_values) for entry in found])
    elif not found:
        click.echo("No keys found in bucket")
    elif verbose:
        columns = [*KEYS, Column("Value", flexible=True)] if values else KEYS
        table(
            columns,
            [
                (
                    entry.key,
                    entry.revision,
                    local_time(entry.created),
                    entry.size,
                    *([text_of(entry.value)] if values else []),
                )
                for entry in found
            ],
        )
    else:
        for entry in found:
            click.echo(entry.key)


@click.command(
    epilog="""\b
Examples:
  headrace kv add config
  headrace kv add sessions --ttl 1h --history 5 --storage memory
  headrace kv add copy --mirror config
"""
)
@click.argument("bucket", callback=bucket_name)
@connection_options
@click.option("--description", metavar="TEXT", help="A description of the bucket.")
@click.option(
    "--history",
    type=click.IntRange(1, 64),
    default=1,
    metavar="N",
    help="How many values to keep per key. [default: 1]",
)
@click.option(
    "--storage",
    type=click.Choice(["file", "f", "memory", "m"]),
    default="file",
    help="Where to keep it. [default: file]",
)
@click.option("--ttl", type=Duration, default=0, metavar="DURATION", help="How long to keep values.")
@click.option(
    "--marker-ttl",
    type=Duration,
    default=0,
    metavar="DURATION",
    help="Allow TTLs of keys, and keep the marks of expired keys for this long.",
)
@click.option(
    "--replicas", type=click.IntRange(min=1), default=1, metavar="N", help="Number of replicas. [default: 1]"
)
@click.option("--max-value-size", type=Size, default=0, metavar="BYTES", help="Largest value.")
@click.option("--max-bucket-size", type=Size, default=0, metavar="BYTES", help="Largest size of the bucket.")
@click.option("--tags", multiple=True, metavar="TAG", help="Place it on servers with this tag; repeatable.")
@click.option("--cluster", metavar="NAME", help="Place it in this cluster.")
@click.option("--compress/--no-compress", help="Compress the data.")
@click.option("--metadata", multiple=True, metavar="NAME=VALUE", help="Metadata; repeatable.")
@click.option("--republish-source", metavar="SUBJECT", help="Republish what has this subject.")
@click.option("--republish-destination", metavar="SUBJECT", help="Where to republish it.")
@click.option("--republish-headers", is_flag=True, help="Republish only headers.")
@click.option("--mirror", callback=bucket_name, metavar="BUCKET", help="Make a mirror of this bucket.")
@click.option("--mirror-domain", metavar="DOMAIN", help="The domain of that bucket.")
@click.option("--source", multiple=True, metavar="BUCKET", help="Copy from this bucket; repeatable.")
@json_option
def add(target: Target, bucket: str, as_json: bool, **options: Any) -> int:
    """Make a BUCKET."""
    from headrace.cli.jetstream.api import run_with_jetstream
    from headrace.cli.kv.configuration import stream_config
    from headrace.client.errors import ApiError

    config = stream_config(bucket, options)

    async def work(jetstream: JetStream) -> None:
        try:
            created = await jetstream.request(f"STREAM.CREATE.{config['name']}", config)
        except ApiError as error:
            if error.err_code == NAME_IN_USE:
                error = explain_existing(bucket, error)
            raise error from None
        show(created, as_json)

    return run_with_jetstream(target, work)


def explain_existing(bucket: str, error: ApiError) -> ApiError:
    from headrace.client.errors import ApiError

    return ApiError(
        f"there is a bucket {bucket} with other settings",
        code=error.code,
        err_code=error.err_code,
        description=error.description,
        hint="remove it first, or choose another name",
    )


@click.command()
@click.argument("bucket", callback=bucket_name)
@connection_options
@json_option
def info(target: Target, bucket: str, as_json: bool) -> int:
    """Show the configuration and the state of BUCKET."""
    from headrace.cli.jetstream.api import run_with_jetstream
    from headrace.cli.kv.bucket import open_bucket

    async def work(jetstream: JetStream) -> None:
        show((await open_bucket(jetstream, bucket)).info, as_json)

    return run_with_jetstream(target, work)


def describe(info: dict[str, Any]) -> dict[str, Any]:
    """A bucket for programs; durations are in nanoseconds, as in the JetStream API."""
    from headrace.cli.kv.bucket import PREFIX

    config, state = info["config"], info["state"]
    return {
        "bucket": config["name"].removeprefix(PREFIX),
        "description": config.get("description", ""),
        "created": info["created"],
        "values": state["messages"],
        "bytes": state["bytes"],
        "last_update": state["last_ts"],
        "history": config.get("max_msgs_per_subject", 1),
        "ttl": config.get("max_age", 0),
        "marker_ttl": config.get("subject_delete_marker_ttl", 0),
        "max_bucket_size": config.get("max_bytes", -1),
        "max_value_size": config.get("max_msg_size", -1),
        "storage": config["storage"],
        "replicas": config.get("num_replicas", 1),
        "compressed": config.get("compression", "none") != "none",
        "stream": config["name"],
    }


def show(info: dict[str, Any], as_json: bool) -> None:
    from headrace.cli.jetstream.shown import local_time
    from headrace.cli.kv.bucket import PREFIX
    from headrace.client.api import parse_time

    if as_json:
        print_json(describe(info))
        return
    config, state = info["config"], info["state"]
    marker_ttl = config.get("subject_delete_marker_ttl", 0)
    republish = config.get("republish") or {}
    created = local_time(parse_time(info["created"]))
    mirror = (config.get("mirror") or {}).get("name", "")
    facts(
        [
            ("History kept", config.get("max_msgs_per_subject", 1)),
            ("Values stored", state["messages"]),
            ("Bucket size", size(state["bytes"])),
            ("Description", config.get("description", "")),
            ("Maximum bucket size", size_limit(config.get("max_bytes", -1))),
            ("Maximum value size", size_limit(config.get("max_msg_size", -1))),
            ("Maximum age", duration(config["max_age"]) if config.get("max_age") else "unlimited"),
            ("Key TTLs", f"yes, marks kept for {duration(marker_ttl)}" if marker_ttl else "no"),
            ("Compressed", "yes" if config.get("compression", "none") != "none" else "no"),
            ("Storage", config["storage"]),
            ("Replicas", config.get("num_replicas", 1)),
            ("Stream", config["name"]),
            ("Republishing", f"{republish['src']} to {republish['dest']}" if republish else ""),
            ("Mirror of", mirror.removeprefix(PREFIX)),
            ("Sources", ", ".join(s["name"].removeprefix(PREFIX) for s in config.get("sources") or [])),
            ("Metadata", ", ".join(_metadata(config))),
        ],
        title=f"Bucket {config['name'].removeprefix(PREFIX)}, created {created}",
    )


def _metadata(config: dict[str, Any]) -> list[str]:
    """Without what the server adds."""
    metadata = config.get("metadata") or {}
    return [f"{name}={value}" for name, value in sorted(metadata.items()) if not name.startswith("_nats.")]
