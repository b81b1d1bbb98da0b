"""A disk that can be filled: a tmpfs of a fixed size that only this process and its children see."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
from pathlib import Path

CLONE_NEWNS = 0x00020000
STEP_BYTES = 1 << 20


class Disk:
    """Where the server keeps its streams. `why_unlimited` says why it cannot be filled, if it cannot."""

    def __init__(self, directory: Path, megabytes: int) -> None:
        self.store = directory / "store"
        self.store.mkdir(parents=True)
        self.ballast = self.store / "ballast"
        self.why_unlimited = _mount(self.store, megabytes)

    def fill(self) -> None:
        """To the last page."""
        step = STEP_BYTES
        with self.ballast.open("ab") as file:
            while step >= 4096:
                size = file.seek(0, os.SEEK_END)
                try:
                    os.posix_fallocate(file.fileno(), size, step)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    step //= 2

    def free(self) -> None:
        self.ballast.unlink(missing_ok=True)

    def close(self) -> None:
        if not self.why_unlimited:
            subprocess.run(["umount", str(self.store)], check=True)

    def used_bytes(self) -> int:
        """By the server. Files may vanish while they are counted."""
        total = 0
        for directory, _, names in os.walk(self.store):
            for name in names:
                path = Path(directory, name)
                if path != self.ballast:
                    try:
                        total += path.stat().st_blocks * 512
                    except FileNotFoundError:
                        continue
        return total


def _mount(directory: Path, megabytes: int) -> str:
    """Why it was not possible, or nothing."""
    if os.geteuid() != 0:
        return "a file system of a fixed size needs root"
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(CLONE_NEWNS):
        return f"unshare: {os.strerror(ctypes.get_errno())}"
    commands = (
        ["mount", "--make-rprivate", "/"],
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(directory)],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip()
    return ""
