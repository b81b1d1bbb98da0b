"""`headrace object get`: an object of a bucket into a file, all of it or nothing.

The name of an object is whatever somebody stored: only its last part is used, in the current directory, and
never `..` or the like. The file appears under its name when it is complete and its digest is right.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import click

from headrace.cli.human import size
from headrace.cli.kv.names import bucket_name
from headrace.cli.output import confirm, one_line
from headrace.cli.target import Target, connection_options
from headrace.errors import HeadraceError, UsageError

if TYPE_CHECKING:
    from headrace.cli.jetstream.api import JetStream
    from headrace.cli.object.progress import Progress
    from headrace.cli.object.store import Store

STDOUT = "-"


@click.command(
    epilog="""\b
Examples:
  headrace object get backups dump.sql
  headrace object get backups dump.sql -O /var/tmp/dump.sql
  headrace object get backups dump.sql -O - | psql shop
"""
)
@click.argument("bucket", callback=bucket_name)
@click.argument("name")
@connection_options
@click.option("--output", "-O", metavar="FILE", help="File to write; - writes to stdout.")
@click.option(
    "--progress/--no-progress", default=True, help="Show progress on a terminal. [default: progress]"
)
@click.option("--force", "-f", is_flag=True, help="Replace a file without asking.")
def get(target: Target, bucket: str, name: str, output: str | None, progress: bool, force: bool) -> int:
    """Write the object NAME of BUCKET to a file.

    The file has that name, and is in the current directory.
    """
    from headrace.cli.jetstream.api import run_with_jetstream
    from headrace.cli.object.progress import Progress
    from headrace.cli.object.store import open_store

    path = output or file_name(name)
    if path != STDOUT and os.path.lexists(path) and _is_file(path):
        confirm(f"Replace file {one_line(path)}?", force=force)

    async def work(jetstream: JetStream) -> None:
        store, meta = await (await open_store(jetstream, bucket)).resolve(name)
        shown = Progress(meta["size"], wanted=progress)
        try:
            with _stdout() if path == STDOUT else complete_file(path) as file:
                await download(store, meta, file, shown)
        except BrokenPipeError:
            raise  # whoever reads our output has enough
        except OSError as error:
            raise HeadraceError(f"cannot write {path}: {error.strerror}") from None
        finally:
            shown.finish()
        if path != STDOUT:
            click.echo(f"Wrote {size(meta['size'])} to {one_line(path)}")

    return run_with_jetstream(target, work)


def file_name(name: str) -> str:
    """The last part of an object's name. Raises UsageError if that is not a name for a file."""
    last = os.path.basename(os.path.normpath(name.replace("\\", "/")))
    if last in ("", ".", "..", STDOUT) or "\0" in last:
        raise UsageError(f"object {name!r} has no name for a file", hint="choose one with --output")
    return last


def _is_file(path: str) -> bool:
    """Not a device, a pipe or a directory, which are not replaced."""
    mode = os.lstat(path).st_mode
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


async def download(store: Store, meta: dict[str, object], file: BinaryIO, progress: Progress) -> None:
    """Raises HeadraceError if what arrives is not the object that is described."""
    from headrace.cli.object.digest import Digest

    digest, length = Digest(), 0
    if meta["size"]:
        async for data in store.chunks(meta):
            digest.add(data)
            length += len(data)
            file.write(data)
            progress.add(len(data))
    if length != meta["size"] or not digest.matches(str(meta["digest"])):
        raise HeadraceError(
            f"object {store.name} > {meta['name']} is damaged: {length:,} of {meta['size']:,} bytes, "
            f"digest {'right' if digest.matches(str(meta['digest'])) else 'wrong'}"
        )


@contextlib.contextmanager
def complete_file(path: str) -> Iterator[BinaryIO]:
    """A file that gets its name at the end, and leaves nothing behind if there is an error."""
    if os.path.lexists(path) and not _is_file(path):
        with open(path, "wb") as device:  # a directory is an error
            yield device
        return
    import secrets

    partial = f"{path}.{secrets.token_hex(4)}.part"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


@contextlib.contextmanager
def _stdout() -> Iterator[BinaryIO]:
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()
