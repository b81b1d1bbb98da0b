"""`headrace object ls`, `add`, `info` and `seal`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.human import Duration, Size, age, size
from headrace.cli.kv.names import bucket_name
from headrace.cli.output import confirm, printable
from headrace.cli.tables import Column, json_option, print_json, table
from headrace.cli.target import Target, connection_options

if TYPE_CHECKING:
    from headrace.cli.jetstream.api import JetStream

BUCKETS = [
    Column("Bucket", flexible=True),
    Column("Description", flexible=True, optional=2),
    Column("Created", optional=1),
    Column("Size", number=True),
    Column("Last update", number=True),
]
OBJECTS = [Column("Name", flexible=True), Column("Size", number=True), Column("Modified")]


@click.command()
@click.argument("bucket", required=False, callback=bucket_name)
@connection_options
@click.option("--names", "-n", is_flag=True, help="Show only names, one per line.")
@json_option
def ls(target: Target, bucket: str | None, names: bool, as_json: bool) -> int:
    """List the buckets, or the objects of BUCKET."""
    from headrace.cli.jetstream.api import run_with_jetstream

    async def work(jetstream: JetStream) -> None:
        if bucket is None:
            await _list_buckets(jetstream, names, as_json)
        else:
            await _list_objects(jetstream, bucket, names, as_json)

    return run_with_jetstream(target, work)


async def _list_buckets(jetstream: JetStream, names: bool, as_json: bool) -> None:
    from headrace.cli.jetstream.shown import local_time
    from headrace.cli.object.shown import describe_bucket
    from headrace.cli.object.store import PREFIX
    from headrace.client.api import parse_time

    infos = await jetstream.streams()
    buckets = [describe_bucket(info) for info in infos if info["config"]["name"].startswith(PREFIX)]
    buckets.sort(key=lambda bucket: str(bucket["bucket"]))
    if as_json:
        print_json(buckets)
    elif names:
        for bucket in buckets:
            click.echo(bucket["bucket"])
    elif not buckets:
        click.echo("No buckets found")
    else:
        table(
            BUCKETS,
            [
                (
                    bucket["bucket"],
                    bucket["description"],
                    local_time(parse_time(bucket["created"])),
                    size(bucket["bytes"]),
                    age(bucket["last_update"]),
                )
                for bucket in buckets
            ],
        )


async def _list_objects(jetstream: JetStream, name: str, names: bool, as_json: bool) -> None:
    from headrace.cli.jetstream.shown import local_time
    from headrace.cli.object.shown import describe_object
    from headrace.cli.object.store import open_store
    from headrace.client.api import parse_time

    found = await (await open_store(jetstream, name)).objects()
    if as_json:
        print_json([describe_object(meta) for meta in found])
    elif names:
        for meta in found:
            click.echo(printable(meta["name"]))
    elif not found:
        click.echo("No objects found in bucket")
    else:
        table(
            OBJECTS,
            [(meta["name"], size(meta["size"]), local_time(parse_time(meta["mtime"]))) for meta in found],
        )


@click.command()
@click.argument("bucket", callback=bucket_name)
@connection_options
@click.option("--description", metavar="TEXT", help="A description of the bucket.")
@click.option("--ttl", type=Duration, default=0, metavar="DURATION", help="How long to keep objects.")
@click.option(
    "--replicas", type=click.IntRange(min=1), default=1, metavar="N", help="Number of replicas. [default: 1]"
)
@click.option("--max-bucket-size", type=Size, default=0, metavar="BYTES", help="Largest size of the bucket.")
@click.option(
    "--storage",
    type=click.Choice(["file", "f", "memory", "m"]),
    default="file",
    help="Where to keep it. [default: file]",
)
@click.option("--tags", multiple=True, metavar="TAG", help="Place it on servers with this tag; repeatable.")
@click.option("--cluster", metavar="NAME", help="Place it in this cluster.")
@click.option("--metadata", multiple=True, metavar="NAME=VALUE", help="Metadata; repeatable.")
@click.option("--compress/--no-compress", help="Compress the data.")
@json_option
def add(target: Target, bucket: str, as_json: bool, **options: Any) -> int:
    """Make a BUCKET."""
    from headrace.cli.jetstream.api import run_with_jetstream
    from headrace.cli.kv.configuration import pairs
    from headrace.cli.object.shown import show_bucket
    from headrace.cli.object.store import PREFIX

    config: dict[str, Any] = {
        "name": f"{PREFIX}{bucket}",
        "description": options["description"] or "",
        "subjects": [f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"],
        "max_age": options["ttl"],
        "max_bytes": options["max_bucket_size"] or -1,
        "storage": "memory" if options["storage"].startswith("m") else "file",
        "num_replicas": options["replicas"],
        "retention": "limits",
        "discard": "new",
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        "compression": "s2" if options["compress"] else "none",
        "metadata": pairs(options["metadata"]),
    }
    if options["cluster"] or options["tags"]:
        config["placement"] = {"cluster": options["cluster"] or "", "tags": list(options["tags"])}

    async def work(jetstream: JetStream) -> None:
        show_bucket(await jetstream.request(f"STREAM.CREATE.{config['name']}", config), as_json)

    return run_with_jetstream(target, work)


@click.command()
@click.argument("bucket", callback=bucket_name)
@click.argument("name", required=False)
@connection_options
@json_option
def info(target: Target, bucket: str, name: str | None, as_json: bool) -> int:
    """Show BUCKET, or its object NAME."""
    from headrace.cli.jetstream.api import run_with_jetstream
    from headrace.cli.object.shown import show_bucket, show_object
    from headrace.cli.object.store import open_store

    async def work(jetstream: JetStream) -> None:
        store = await open_store(jetstream, bucket)
        if name is None:
            show_bucket(store.info, as_json)
        else:
            show_object(await store.describe(name), as_json)

    return run_with_jetstream(target, work)


@click.command()
@click.argument("bucket", callback=bucket_name)
@connection_options
@click.option("--force", "-f", is_flag=True, help="Do not ask.")
@json_option
def seal(target: Target, bucket: str, force: bool, as_json: bool) -> int:
    """Never change BUCKET again; this cannot be undone."""
    from headrace.cli.jetstream.api import run_with_jetstream
    from headrace.cli.object.shown import show_bucket
    from headrace.cli.object.store import open_store

    confirm(f"Seal bucket {bucket}? Nothing in it can be changed any more.", force=force)

    async def work(jetstream: JetStream) -> None:
        store = await open_store(jetstream, bucket)
        config = store.info["config"] | {"sealed": True}
        show_bucket(await jetstream.request(f"STREAM.UPDATE.{store.stream}", config), as_json)

    return run_with_jetstream(target, work)
