"""`headrace kv del`, `purge`, `revert` and `compact`: what cannot be undone, or undoes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from headrace.cli.human import Duration
from headrace.cli.kv.key_commands import bucket_argument, key_argument, revision_argument, show_history
from headrace.cli.kv.names import key_name
from headrace.cli.output import confirm, plural
from headrace.cli.tables import json_option
from headrace.cli.target import Target, connection_options
from headrace.go_formats import NANOSECONDS

if TYPE_CHECKING:
    from headrace.cli.jetstream.api import JetStream

MARKS_KEPT_SECONDS = 30 * 60
force_option = click.option("--force", "-f", is_flag=True, help="Do not ask.")


@click.command(name="del")
@bucket_argument
@click.argument("key", required=False, callback=key_name)
@connection_options
@force_option
def delete(target: Target, bucket: str, key: str | None, force: bool) -> int:
    """Delete KEY, or the whole BUCKET.

    A deleted key keeps its history, with a mark that it was deleted. `rm` is another name of this command.
    """
    from headrace.cli.jetstream.api import run_with_jetstream
    from headrace.cli.kv.bucket import open_bucket

    confirm(f"Delete key {bucket} > {key}?" if key else f"Delete bucket {bucket}?", force=force)

    async def work(jetstream: JetStream) -> None:
        opened = await open_bucket(jetstream, bucket)
        if key is None:
            await jetstream.request(f"STREAM.DELETE.{opened.stream}")
            click.echo(f"Bucket {bucket} deleted")
        else:
            await opened.delete(key)
            click.echo(f"{bucket} > {key} deleted")

    return run_with_jetstream(target, work)


@click.command()
@bucket_argument
@key_argument
@connection_options
@force_option
@click.option("--ttl", type=Duration, default=0, metavar="DURATION", help="Remove the mark after this long.")
def purge(target: Target, bucket: str, key: str, force: bool, ttl: int) -> int:
    """Delete KEY with its history.

    Only a mark that it was purged remains.
    """
    from headrace.cli.jetstream.api import run_with_jetstream
    from headrace.cli.kv.bucket import open_bucket

    confirm(f"Purge key {bucket} > {key}?", force=force)

    async def work(jetstream: JetStream) -> None:
        await (await open_bucket(jetstream, bucket)).purge(key, ttl)
        click.echo(f"{bucket} > {key} purged")

    return run_with_jetstream(target, work)


@click.command()
@bucket_argument
@key_argument
@revision_argument
@connection_options
@force_option
@json_option
def revert(target: Target, bucket: str, key: str, revision: int, force: bool, as_json: bool) -> int:
    """Store the value that KEY had in REVISION again.

    Then show the history.
    """
    from headrace.cli.jetstream.api import run_with_jetstream
    from headrace.cli.kv.bucket import KeyMissingError, open_bucket

    confirm(f"Revert {bucket} > {key} to revision {revision}?", force=force)

    async def work(jetstream: JetStream) -> None:
        opened = await open_bucket(jetstream, bucket)
        entries = await opened.entries(key, history=True)
        wanted = [entry for entry in entries if entry.revision == revision and not entry.is_removal]
        if not wanted:
            raise KeyMissingError(f"bucket {bucket} has no revision {revision} of {key} with a value")
        await opened.update(key, wanted[0].value, entries[-1].revision)
        await show_history(opened, key, as_json)

    return run_with_jetstream(target, work)


@click.command()
@bucket_argument
@connection_options
@force_option
def compact(target: Target, bucket: str, force: bool) -> int:
    """Free the space of deleted keys.

    Their history is removed, and marks that are older than 30 minutes.
    """
    from headrace.cli.jetstream.api import run_with_jetstream
    from headrace.cli.kv.bucket import open_bucket

    confirm(f"Remove the history of all deleted keys in bucket {bucket}?", force=force)

    async def work(jetstream: JetStream) -> None:
        opened = await open_bucket(jetstream, bucket)
        removed = [entry for entry in await opened.entries() if entry.is_removal]
        limit = time.time_ns() - MARKS_KEPT_SECONDS * NANOSECONDS
        for entry in removed:
            await jetstream.request(
                f"STREAM.PURGE.{opened.stream}",
                {"filter": opened.prefix + entry.key, "keep": 1 if entry.created > limit else 0},
            )
        click.echo(f"{plural(len(removed), 'deleted key')} compacted")

    return run_with_jetstream(target, work)
