"""Small files that are replaced atomically: the configurations of streams and consumers.

A checked file is one line `headrace <version> <CRC-32 of the rest>` and then the body. It is written
under another name, synced, renamed over the old one, and the directory is synced: after a crash there is
the old file or the new one. Everything here blocks; callers on the event loop use `in_thread`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import zlib
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from headrace.streams.errors import StoreError

MAGIC = b"headrace"
VERSION = b"1"
META = "meta.json"
MESSAGES = "msgs"
TEMPORARY_SUFFIX = ".new"
DELETED_PREFIX = ".deleted-"
FILE_MODE = 0o640
DIRECTORY_MODE = 0o750

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


async def in_thread(
    function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Run a blocking function without blocking the event loop."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, partial(function, *args, **kwargs))


def child_directory(parent: str, name: str) -> str:
    """The path of a stream's or consumer's directory. Raises StoreError for a name that leaves the parent.

    The API refuses such names first; this is the last line of defense.
    """
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise StoreError(f"not the name of a directory: {name!r}")
    return os.path.join(parent, name)


def write_checked(path: str, body: bytes) -> None:
    """Replace the file. Raises OSError; then the old one is still there."""
    checksum = b"%08x" % zlib.crc32(body)
    data = MAGIC + b" " + VERSION + b" " + checksum + b"\n" + body
    temporary = path + TEMPORARY_SUFFIX
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        written = 0
        while written < len(data):
            written += os.write(descriptor, data[written:])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))


def read_checked(path: str) -> bytes:
    """The body. Raises StoreError if it is missing or damaged."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise StoreError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    head, line_end, body = data.partition(b"\n")
    parts = head.split(b" ")
    if not line_end or len(parts) != 3 or parts[0] != MAGIC:
        raise StoreError(f"{path}: not a file of this server")
    if parts[1] != VERSION:
        raise StoreError(f"{path}: written by another version")
    if parts[2] != b"%08x" % zlib.crc32(body):
        raise StoreError(f"{path}: damaged, its checksum does not match")
    return body


def sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: str) -> None:
    """Make it, and everything above it, and sync what changed."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    make_directory(parent)
    os.mkdir(path, DIRECTORY_MODE)
    sync_directory(parent)


def retire_directory(path: str, name: str) -> str:
    """Rename a directory so that recovery deletes it, whenever the server is killed. Returns its path."""
    parent = os.path.dirname(path)
    retired = os.path.join(parent, f"{DELETED_PREFIX}{name[:40]}-{secrets.token_hex(8)}")
    os.rename(path, retired)
    sync_directory(parent)
    return retired


def remove_tree(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)


def list_directory(path: str) -> list[str]:
    """The names of the directories in it, sorted; none if it does not exist. Removes retired directories."""
    if not os.path.isdir(path):
        return []
    names = sorted(entry.name for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False))
    for name in names:
        if name.startswith(DELETED_PREFIX):
            remove_tree(os.path.join(path, name))
    return [name for name in names if not name.startswith(DELETED_PREFIX)]


def is_leftover(directory: str) -> bool:
    """Whether it is left over from an interrupted creation: it has no meta file and no messages."""
    if os.path.exists(os.path.join(directory, META)):
        return False
    messages = os.path.join(directory, MESSAGES)
    return not os.path.isdir(messages) or not os.listdir(messages)
