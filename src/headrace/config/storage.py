"""The storage directory of JetStream, which is created, checked and locked before anything is read from it;
and the limits that the options leave to the server.

A directory that cannot be used is an error at the start, not a stream that fails later. nats-server has no
such lock: it lets two servers write into one directory, and then both lose messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import tempfile
import time

import msgspec

from headrace.config.options import Options
from headrace.errors import UsageError

DIRECTORY_MODE = 0o750
LOCK_SECONDS = 3.0  # a server that is stopping may still be writing
LOCK_POLL_SECONDS = 0.02
LIMIT_IF_UNKNOWN = 1 << 40
BLOCK_BYTES = 512  # the unit of st_blocks, on any file system


class StorageDirectory:
    """The directory while this server uses it: from `open` until `close`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = -1

    async def open(self) -> None:
        """Raises UsageError if the directory cannot be used."""
        _make(self.path)
        _check_writable(self.path)
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        deadline = time.monotonic() + LOCK_SECONDS
        while not self._lock():
            if time.monotonic() > deadline:
                self.close()
                raise UsageError(
                    f"storage directory {self.path} is in use by another server",
                    hint="give each server its own: `headrace serve --store DIR`, `headrace-server -sd DIR`",
                )
            await asyncio.sleep(LOCK_POLL_SECONDS)

    def close(self) -> None:
        """Release it. The lock ends with the descriptor, also when the process is killed."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _lock(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks: as in nats-server, nothing prevents two servers
            return True
        return True


def with_limits(options: Options) -> Options:
    """Options in which the limits that are left to the server are filled in."""
    changes: dict[str, int] = {}
    if options.jetstream_max_memory < 0:
        changes["jetstream_max_memory"] = _memory_bytes() // 4 * 3
    if options.jetstream_max_store < 0:
        # nats-server counts only free space: each start with more data allows less, and in the end nothing.
        directory = options.jetstream_directory
        changes["jetstream_max_store"] = (_free_bytes(directory) + _used_bytes(directory)) // 4 * 3
    return msgspec.structs.replace(options, **changes)


def _make(path: str) -> None:
    if os.path.isdir(path):
        return
    if os.path.exists(path):
        raise UsageError("storage directory is not a directory", hint=path)
    try:
        os.makedirs(path, DIRECTORY_MODE, exist_ok=True)
    except (NotADirectoryError, FileExistsError):
        raise UsageError("storage directory is not a directory", hint=path) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"could not create storage directory - mkdir {error.filename}: {reason}") from None


def _check_writable(path: str) -> None:
    try:
        descriptor, name = tempfile.mkstemp(prefix="_test_", dir=path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError("storage directory is not writable", hint=f"{path}: {reason}") from None
    os.close(descriptor)
    os.remove(name)


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return LIMIT_IF_UNKNOWN


def _used_bytes(path: str) -> int:
    """The disk space that the files of a directory use, and those of the directories in it."""
    used = 0
    for directory, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # others may be changing it
                used += os.lstat(os.path.join(directory, name)).st_blocks * BLOCK_BYTES
    return used


def _free_bytes(path: str) -> int:
    try:
        status = os.statvfs(path)
    except OSError:
        return LIMIT_IF_UNKNOWN
    return status.f_bavail * status.f_frsize
