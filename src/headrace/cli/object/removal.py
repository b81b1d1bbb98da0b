"""`headrace object rm`: an object, or a bucket with all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.kv.names import bucket_name
from headrace.cli.output import confirm, one_line
from headrace.cli.target import Target, connection_options

if TYPE_CHECKING:
    from headrace.cli.jetstream.api import JetStream


@click.command(name="rm")
@click.argument("bucket", callback=bucket_name)
@click.argument("name", required=False)
@connection_options
@click.option("--force", "-f", is_flag=True, help="Do not ask.")
def delete(target: Target, bucket: str, name: str | None, force: bool) -> int:
    """Delete the object NAME, or the whole BUCKET. `del` is another name of this command."""
    from headrace.cli.jetstream.api import run_with_jetstream
    from headrace.cli.object.store import open_store

    what = f"object {bucket} > {one_line(name)}" if name else f"bucket {bucket} and all its objects"
    confirm(f"Delete {what}?", force=force)

    async def work(jetstream: JetStream) -> None:
        store = await open_store(jetstream, bucket)
        if name is None:
            await jetstream.request(f"STREAM.DELETE.{store.stream}")
            click.echo(f"Bucket {bucket} deleted")
        else:
            await store.remove(await store.describe(name))
            click.echo(f"{bucket} > {one_line(name)} deleted")

    return run_with_jetstream(target, work)
