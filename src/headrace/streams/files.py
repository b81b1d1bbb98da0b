"""Small files that are replaced atomically: the configurations of streams and consumers.

Their format is that of `on_disk/checked_file.py`. A file is written under another name, synced, renamed over
the old one, and the directory is synced: after a crash there is the old file or the new one. The old one
keeps a second name until the directory is synced, so that a change that is refused because that fails is
undone on disk, too: what a server does must not change with its next start. Everything here blocks; callers
on the event loop use `in_thread`.

Only a wrong checksum or format is damage (StoreError). An OSError says nothing about the file: it may be
readable next time, and must not be treated as lost or missing.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

from headrace.on_disk.checked_file import body_of, with_checksum
from headrace.streams.errors import StoreError

META = "meta.json"
MESSAGES = "msgs"
TEMPORARY_SUFFIX = ".new"
OLD_SUFFIX = ".old"
DELETED_PREFIX = ".deleted-"
FILE_MODE = 0o640
DIRECTORY_MODE = 0o750
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""A file system without hard links."""

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


def write_checked(path: str, body: bytes) -> bool:
    """Replace the file. Raises OSError; then the old one is still there, or none if there was none.

    False: it is replaced, but may not be after a power failure. The directory could be neither synced nor
    changed back, so the new file is what the next start reads.
    """
    temporary, old = path + TEMPORARY_SUFFIX, path + OLD_SUFFIX
    _write_synced(temporary, with_checksum(body))
    has_old = _keep_old(path, old)
    os.rename(temporary, path)
    try:
        sync_directory(os.path.dirname(path))
    except OSError:
        if _undo(path, old if has_old else None):
            raise
        return False
    if has_old:
        with suppress(OSError):  # the next change removes it
            os.unlink(old)
    return True


def _write_synced(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        written = 0
        while written < len(data):
            written += os.write(descriptor, data[written:])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep_old(path: str, old: str) -> bool:
    """Give the file a second name. Returns False if there is no such file. Raises OSError."""
    with suppress(FileNotFoundError):
        os.unlink(old)  # left over from a server that was killed
    try:
        os.link(path, old)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        with open(path, "rb") as file:
            _write_synced(old, file.read())
    return True


def _undo(path: str, old: str | None) -> bool:
    """Put the old file back, or none. This is no more certain to be durable than what it undoes."""
    try:
        if old is None:
            os.unlink(path)
        else:
            os.rename(old, path)
    except OSError:
        return False
    with suppress(OSError):
        sync_directory(os.path.dirname(path))
    return True


def read_checked(path: str) -> bytes:
    """The body. Raises StoreError if it is damaged, OSError if it is missing or cannot be read."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        return body_of(data)
    except ValueError as error:
        raise StoreError(f"{path}: {error}") from None


def exists(path: str) -> bool:
    """Unlike os.path.exists, raises OSError if it cannot tell: no answer does not mean no."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


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
    """Rename a directory so that recovery deletes it, whenever the server is killed. Returns its path.

    Does not wait for the disk. Raises OSError; then nothing has changed.
    """
    parent = os.path.dirname(path)
    retired = os.path.join(parent, f"{DELETED_PREFIX}{name[:40]}-{secrets.token_hex(8)}")
    os.rename(path, retired)
    return retired


def remove_retired(path: str) -> None:
    """Raises OSError if it may be back under its former name, partly removed, after a power failure."""
    try:
        sync_directory(os.path.dirname(path))
    finally:
        remove_tree(path)


def remove_tree(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)


def list_directory(path: str) -> list[str]:
    """The names of the directories in it, sorted; none if it does not exist. Removes retired directories.

    Raises OSError.
    """
    try:
        with os.scandir(path) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []
    for name in names:
        if name.startswith(DELETED_PREFIX):
            remove_tree(os.path.join(path, name))
    return [name for name in names if not name.startswith(DELETED_PREFIX)]


def is_leftover(directory: str) -> bool:
    """Whether it is left over from an interrupted creation: it has no meta file and no messages.

    Raises OSError if it cannot tell.
    """
    if exists(os.path.join(directory, META)):
        return False
    messages = os.path.join(directory, MESSAGES)
    return not exists(messages) or not os.listdir(messages)


def reason_of(error: OSError) -> str:
    """The error in words for the log, with the file, and with what to do if there is a common remedy."""
    reason = error.strerror or str(error)
    if error.filename:
        reason = f"{error.filename}: {reason.lower()}"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        reason += "; raise the limit of open files (ulimit -n, or LimitNOFILE= in a systemd unit)"
    return reason
