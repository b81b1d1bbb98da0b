"""`headrace object put`: a file, or what is piped in, into a bucket."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from headrace.cli.arguments import parse_headers
from headrace.cli.human import Size
from headrace.cli.kv.names import bucket_name
from headrace.cli.output import confirm, one_line
from headrace.cli.tables import json_option
from headrace.cli.target import Target, connection_options
from headrace.errors import UsageError

if TYPE_CHECKING:
    from headrace.cli.jetstream.api import JetStream
    from headrace.cli.object.progress import Progress
    from headrace.cli.object.store import Store

LARGEST_CHUNK = 64 * 1024 * 1024
DISCARD_SECONDS = 5.0


@click.command(
    epilog="""\b
Examples:
  headrace object put backups dump.sql
  headrace object put backups /var/tmp/dump.sql --name dump.sql
  pg_dump shop | headrace object put backups --name dump.sql
"""
)
@click.argument("bucket", callback=bucket_name)
@click.argument("file", required=False)
@connection_options
@click.option("--name", metavar="NAME", help="Name of the object; without it, that of the file as given.")
@click.option("--description", metavar="TEXT", help="A description of the object.")
@click.option(
    "--header", "-H", "headers", multiple=True, metavar="'NAME: VALUE'", help="Header to keep; repeatable."
)
@click.option("--chunk-size", type=Size, default=0, metavar="BYTES", help="Size of chunks. [default: 128KB]")
@click.option(
    "--progress/--no-progress", default=True, help="Show progress on a terminal. [default: progress]"
)
@click.option("--force", "-f", is_flag=True, help="Replace an object without asking.")
@json_option
def put(
    target: Target,
    bucket: str,
    file: str | None,
    name: str | None,
    description: str | None,
    headers: tuple[str, ...],
    chunk_size: int,
    progress: bool,
    force: bool,
    as_json: bool,
) -> int:
    """Store FILE in BUCKET.

    Without FILE, what is piped in is stored under --name.
    """
    from headrace.cli.jetstream.api import run_with_jetstream
    from headrace.cli.object.progress import Progress
    from headrace.cli.object.shown import show_object
    from headrace.cli.object.store import CHUNK_BYTES, open_store

    if file is None and not name:
        raise click.UsageError("--name is required when the object is read from stdin")
    if not 0 <= chunk_size <= LARGEST_CHUNK:
        raise click.UsageError("--chunk-size must be at most 64MB")
    parsed = parse_headers(headers)
    stored_name = os.path.normpath(name or file or "")
    meta: dict[str, Any] = {
        "name": stored_name,
        "description": description or "",
        "headers": {key: [value] for key, value in (parsed or {}).items()},
        "options": {"max_chunk_size": chunk_size or CHUNK_BYTES},
        "bucket": bucket,
    }

    async def exists(jetstream: JetStream) -> int:
        return int(await (await open_store(jetstream, bucket)).find(stored_name) is not None)

    async def work(jetstream: JetStream) -> None:
        store = await open_store(jetstream, bucket)
        with _opened(file) as source:
            length = os.fstat(source.fileno()).st_size if file is not None else None
            await upload(store, source, meta, Progress(length, wanted=progress))
        show_object(await store.describe(stored_name), as_json)

    if file is not None:
        _opened(file).close()  # a wrong name is reported before anything else
    if not force and (code := run_with_jetstream(target, exists)):
        if code != 1:
            return code
        confirm(f"Replace object {bucket} > {one_line(stored_name)}?", force=False)
    return run_with_jetstream(target, work)


def _opened(path: str | None) -> BinaryIO:
    if path is None:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    try:
        return open(path, "rb")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


async def upload(store: Store, source: BinaryIO, meta: dict[str, Any], progress: Progress) -> None:
    """Chunks first, under an id of their own, then the description: until then the old object is there."""
    from headrace.cli.object.digest import Digest
    from headrace.cli.object.source import read_piece
    from headrace.cli.object.store import new_identifier

    before = await store.find(meta["name"])
    identifier, digest = new_identifier(), Digest()
    length = count = 0
    try:
        async with store.publisher() as publisher:
            wait_for, size = store.jetstream.connection.wait_for, meta["options"]["max_chunk_size"]
            while data := await wait_for(read_piece(source, size)):
                digest.add(data)
                length, count = length + len(data), count + 1
                await publisher.publish(store.chunk_subject(identifier), data)
                progress.add(len(data))
            await publisher.finish()
        fields = {"nuid": identifier, "size": length, "chunks": count, "digest": digest.text}
        await store.put_meta(meta | fields)
    except BaseException:
        if store.jetstream.connection.client.is_connected:
            await _discard(store, identifier)
        raise
    finally:
        progress.finish()
    if before is not None and before["nuid"]:
        await store.remove_chunks(before["nuid"])


async def _discard(store: Store, identifier: str) -> None:
    """What was stored of an object that is not there. Not through `wait_for`, which an interrupt ends."""
    import contextlib
    import json

    import nats.errors

    body = json.dumps({"filter": store.chunk_subject(identifier)}).encode()
    with contextlib.suppress(nats.errors.Error):  # the reason that is reported is another one
        subject = f"$JS.API.STREAM.PURGE.{store.stream}"
        await store.jetstream.connection.client.request(subject, body, timeout=DISCARD_SECONDS)
