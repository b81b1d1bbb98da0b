"""The temporary directory of a server that was given none.

It goes when the server stops. A process that is killed cannot remove it, so the next server of this user
does: a directory that nobody has locked belongs to nobody.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "headrace-store-"
YOUNG_SECONDS = 60.0
"""A directory is locked right after it is made: one that is older and not locked was left behind."""


class TemporaryStore:
    """Exists, locked, until `remove`."""

    def __init__(self) -> None:
        remove_abandoned()
        self.path = tempfile.mkdtemp(prefix=PREFIX)
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def remove(self) -> None:
        try:
            with contextlib.suppress(FileNotFoundError):  # somebody else has removed it
                shutil.rmtree(self.path)
        finally:
            os.close(self._descriptor)


def remove_abandoned() -> None:
    """Remove what killed processes of this user have left."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another process removes it, too, or it is locked
            status = path.lstat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > YOUNG_SECONDS:
                _remove_unless_locked(path)


def _remove_unless_locked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path)
    finally:
        os.close(descriptor)
