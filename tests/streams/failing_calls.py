"""Calls of this process on files that fail, for servers in the test's own event loop."""

from __future__ import annotations

import builtins
import errno
import os
import stat
from collections.abc import Callable
from typing import Any

import pytest


def failing(path_part: str, error: int) -> Callable[[object], None]:
    """Raises the error for a path that contains this."""

    def check(path: object) -> None:
        if path_part in os.fspath(path) if isinstance(path, str | os.PathLike) else False:
            raise OSError(error, os.strerror(error), path)

    return check


def fail_directory_syncs(patch: pytest.MonkeyPatch) -> None:
    """As a disk with a bad block under the directory does."""
    fsync = os.fsync

    def sync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    patch.setattr(os, "fsync", sync)


def fail_renames(patch: pytest.MonkeyPatch, path_part: str) -> None:
    rename, check = os.rename, failing(path_part, errno.EIO)

    def rename_unless(source: str, target: str) -> None:
        check(source)
        rename(source, target)

    patch.setattr(os, "rename", rename_unless)


def fail_opens(patch: pytest.MonkeyPatch, path_part: str, error: int) -> None:
    opened, check = builtins.open, failing(path_part, error)

    def open_unless(path: Any, *args: Any, **kwargs: Any) -> Any:
        check(path)
        return opened(path, *args, **kwargs)

    patch.setattr(builtins, "open", open_unless)
