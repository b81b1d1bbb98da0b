"""`headrace kv put`, `get`, `create`, `update` and `history`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from headrace.cli.arguments import read_data
from headrace.cli.human import Duration
from headrace.cli.kv.names import bucket_name, key_name
from headrace.cli.tables import Column, json_option, print_json, table
from headrace.cli.target import Target, connection_options

if TYPE_CHECKING:
    from headrace.cli.jetstream.api import JetStream
    from headrace.cli.kv.bucket import Bucket

SHOWN_CHARACTERS = 120
HISTORY = [
    Column("Key", flexible=True),
    Column("Revision", number=True),
    Column("Op"),
    Column("Created", optional=1),
    Column("Length", number=True),
    Column("Value", flexible=True),
]

bucket_argument = click.argument("bucket", callback=bucket_name)
key_argument = click.argument("key", callback=key_name)
revision_argument = click.argument("revision", type=click.IntRange(0, 2**64 - 1))


@click.command(
    epilog="""\b
Examples:
  headrace kv put config db.host 10.0.0.7
  headrace kv put config certificate < certificate.pem
"""
)
@bucket_argument
@key_argument
@click.argument("value", required=False)
@connection_options
@json_option
def put(target: Target, bucket: str, key: str, value: str | None, as_json: bool) -> int:
    """Store VALUE as KEY.

    Without VALUE, or with - as VALUE, what is piped in is stored, byte for byte.
    """
    data = read_data(value, None)
    return _write(target, bucket, key, as_json, lambda opened: opened.put(key, data))


@click.command()
@bucket_argument
@key_argument
@click.argument("value", required=False)
@connection_options
@click.option("--ttl", type=Duration, default=0, metavar="DURATION", help="Remove the key after this long.")
@json_option
def create(target: Target, bucket: str, key: str, value: str | None, ttl: int, as_json: bool) -> int:
    """Store VALUE as KEY unless KEY has a value.

    --ttl needs a bucket that was made with --marker-ttl.
    """
    data = read_data(value, None)
    return _write(target, bucket, key, as_json, lambda opened: opened.create(key, data, ttl))


@click.command()
@bucket_argument
@key_argument
@click.argument("value")
@revision_argument
@connection_options
@json_option
def update(target: Target, bucket: str, key: str, value: str, revision: int, as_json: bool) -> int:
    """Store VALUE as KEY if the last revision of KEY is REVISION."""
    data = read_data(value, None)
    return _write(target, bucket, key, as_json, lambda opened: opened.update(key, data, revision))


def _write(
    target: Target, name: str, key: str, as_json: bool, write: Callable[[Bucket], Awaitable[int]]
) -> int:
    from headrace.cli.jetstream.api import run_with_jetstream
    from headrace.cli.kv.bucket import open_bucket

    async def work(jetstream: JetStream) -> None:
        revision = await write(await open_bucket(jetstream, name))
        if as_json:
            print_json({"bucket": name, "key": key, "revision": revision})
        else:
            click.echo(f"{name} > {key} stored, revision {revision}")

    return run_with_jetstream(target, work)


@click.command()
@bucket_argument
@key_argument
@connection_options
@click.option(
    "--revision", type=click.IntRange(1, 2**64 - 1), default=None, metavar="N", help="Get this revision."
)
@click.option("--raw", is_flag=True, help="Write only the value, byte for byte.")
@json_option
def get(target: Target, bucket: str, key: str, revision: int | None, raw: bool, as_json: bool) -> int:
    """Print the value of KEY."""
    from headrace.cli.jetstream.api import run_with_jetstream
    from headrace.cli.jetstream.shown import local_time, text_of
    from headrace.cli.kv.bucket import open_bucket
    from headrace.cli.kv.shown import json_entry

    if raw and as_json:
        raise click.UsageError("use either --raw or --json, not both")

    async def work(jetstream: JetStream) -> None:
        entry = await (await open_bucket(jetstream, bucket)).get(key, revision or 0)
        if raw:
            sys.stdout.buffer.write(entry.value)
            sys.stdout.buffer.flush()
        elif as_json:
            print_json(json_entry(entry))
        else:
            text = text_of(entry.value)
            click.echo(f"{bucket} > {key} revision: {entry.revision} created @ {local_time(entry.created)}\n")
            if len(text) > SHOWN_CHARACTERS:
                click.echo(f"The first {SHOWN_CHARACTERS} of {len(text):,} characters; --raw shows all\n")
            click.echo(f"{text[:SHOWN_CHARACTERS]}\n")

    return run_with_jetstream(target, work)


@click.command()
@bucket_argument
@key_argument
@connection_options
@json_option
def history(target: Target, bucket: str, key: str, as_json: bool) -> int:
    """Show the values that KEY had, as many as the bucket keeps."""
    from headrace.cli.jetstream.api import run_with_jetstream
    from headrace.cli.kv.bucket import open_bucket

    async def work(jetstream: JetStream) -> None:
        await show_history(await open_bucket(jetstream, bucket), key, as_json)

    return run_with_jetstream(target, work)


async def show_history(bucket: Bucket, key: str, as_json: bool) -> None:
    from headrace.cli.jetstream.shown import local_time, text_of
    from headrace.cli.kv.bucket import KeyMissingError
    from headrace.cli.kv.shown import json_entry

    entries = await bucket.entries(key, history=True)
    if not entries:
        raise KeyMissingError(f"bucket {bucket.name} has no key {key}")
    if as_json:
        print_json([json_entry(entry) for entry in entries])
        return
    table(
        HISTORY,
        [
            (
                entry.key,
                entry.revision,
                entry.operation,
                local_time(entry.created),
                len(entry.value),
                text_of(entry.value),
            )
            for entry in entries
        ],
    )
