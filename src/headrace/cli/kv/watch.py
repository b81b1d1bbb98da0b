"""`headrace kv watch`: print changes as they happen."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.kv.names import bucket_name, key_pattern
from headrace.cli.output import say
from headrace.cli.target import Target, connection_options

if TYPE_CHECKING:
    from headrace.cli.kv.bucket import Entry


@click.command(
    epilog="""\b
Examples:
  headrace kv watch config              what is there, then every change
  headrace kv watch config 'db.>' --updates --json
"""
)
@click.argument("bucket", callback=bucket_name)
@click.argument("key", default=">", callback=key_pattern)
@connection_options
@click.option(
    "--history", is_flag=True, help="Begin with all values that are stored, not only the last ones."
)
@click.option("--deletes/--no-deletes", default=True, help="Show deletes, too. [default: deletes]")
@click.option("--updates", is_flag=True, help="Show only what is written from now on.")
@click.option("--revision", type=click.IntRange(1, 2**64 - 1), metavar="N", help="Begin with this revision.")
@click.option("--json", "-j", "as_json", is_flag=True, help="Write one JSON object per line.")
def watch(
    target: Target,
    bucket: str,
    key: str,
    history: bool,
    deletes: bool,
    updates: bool,
    revision: int | None,
    as_json: bool,
) -> int:
    """Print values, and every change until Ctrl-C.

    Of all keys of BUCKET, or of those that match KEY.
    """
    import asyncio

    if sum((history, updates, revision is not None)) > 1:
        raise click.UsageError("use one of --history, --updates and --revision")
    start: dict[str, Any] = {"deliver_policy": "last_per_subject"}
    if history:
        start = {"deliver_policy": "all"}
    elif updates:
        start = {"deliver_policy": "new"}
    elif revision:
        start = {"deliver_policy": "by_start_sequence", "opt_start_seq": revision}
    show = _json_line if as_json else _line
    return asyncio.run(_watch(target, bucket, key, start, deletes, show))


async def _watch(target: Target, name: str, key: str, start: dict[str, Any], deletes: bool, show: Any) -> int:
    from headrace.cli.jetstream.api import JetStream
    from headrace.cli.kv.bucket import open_bucket
    from headrace.cli.nats_connection import Interrupted, connect

    async with connect(target) as connection:
        try:
            bucket = await open_bucket(JetStream(connection), name)
            say(f"watching {name} > {key} at {connection.address}; Ctrl-C stops")
            async for entry in bucket.watch(key, start):
                if deletes or not entry.is_removal:
                    sys.stdout.buffer.write(show(entry).encode(errors="replace") + b"\n")
                    sys.stdout.buffer.flush()
        except Interrupted:
            return 0
    return 0


def _line(entry: Entry) -> str:
    from headrace.cli.jetstream.shown import local_time, text_of

    start = f"[{local_time(entry.created)}] {entry.operation} {entry.bucket} > {entry.key}"
    return start if entry.is_removal else f"{start}: {text_of(entry.value)}"


def _json_line(entry: Entry) -> str:
    from headrace.cli.kv.shown import json_entry

    return json.dumps(json_entry(entry), ensure_ascii=False)
