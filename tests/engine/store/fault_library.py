"""faults.c: how it is compiled, and what it does as seen from Python."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sysconfig
from enum import IntEnum
from pathlib import Path

SOURCE = Path(__file__).parent / "faults.c"
FOR_EVER = 1 << 62
SHORT = 0  # in the place of an errno: the call does a part of what it was asked for


class Kind(IntEnum):
    """The kinds of calls, in the order of faults.c."""

    OPEN = 0
    READ = 1
    WRITE = 2
    RENAME = 3
    UNLINK = 4
    TRUNCATE = 5
    ALLOCATE = 6
    SYNC = 7
    SYNC_DIRECTORY = 8
    STAT = 9
    MKDIR = 10
    RMDIR = 11
    LIST = 12
    MEMORY = 13


# What can go wrong with each. EINTR only once: whoever tries again for ever is right to do so.
ERRORS: dict[Kind, tuple[int, ...]] = {
    Kind.OPEN: (errno.EMFILE, errno.EIO, errno.ENOSPC),
    Kind.READ: (errno.EIO, errno.EINTR, SHORT),
    Kind.WRITE: (errno.ENOSPC, errno.EIO, errno.EINTR, SHORT),
    Kind.RENAME: (errno.EIO, errno.ENOSPC),
    Kind.UNLINK: (errno.EIO,),
    Kind.TRUNCATE: (errno.EIO, errno.EINTR),
    Kind.ALLOCATE: (errno.ENOSPC, errno.EOPNOTSUPP),
    Kind.SYNC: (errno.EIO, errno.ENOSPC),
    Kind.SYNC_DIRECTORY: (errno.EIO,),
    Kind.STAT: (errno.EIO,),
    Kind.MKDIR: (errno.ENOSPC, errno.EIO),
    Kind.RMDIR: (errno.EIO,),
    Kind.LIST: (errno.EMFILE, errno.EIO),
    Kind.MEMORY: (errno.ENOMEM,),
}


def name_of(error: int) -> str:
    return "short" if error == SHORT else errno.errorcode[error]


def compile_library(directory: Path) -> Path:
    made = directory / "faults.so"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        compiler = "cc"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", made, SOURCE, "-ldl"], check=True)
    return made


class Faults:
    """In a process with the library preloaded: see faults.c."""

    def __init__(self) -> None:
        library = ctypes.CDLL(os.environ["LD_PRELOAD"].split()[-1])
        library.fault_arm.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_int]
        library.fault_kill.argtypes = [ctypes.c_long]
        library.fault_count.restype = library.fault_hits.restype = ctypes.c_long
        library.fault_forward.argtypes = [ctypes.c_double]
        library.fault_watch.argtypes = [ctypes.c_char_p]
        self._library = library

    def find_engine(self) -> None:
        """From now on, memory that the engine asks for counts. Call it after all imports."""
        self._library.fault_find_engine()

    def watch(self, path: str) -> None:
        self._library.fault_watch(os.fsencode(path))

    def begin(self) -> None:
        self._library.fault_begin()

    def arm(self, kind: Kind, first: int, last: int, error: int) -> None:
        self._library.fault_arm(kind, first, last, error)

    def kill_at(self, call: int) -> None:
        self._library.fault_kill(call)

    def disarm(self) -> None:
        self._library.fault_disarm()

    def forward(self, seconds: float) -> None:
        self._library.fault_forward(seconds)

    def count(self, kind: Kind) -> int:
        counted: int = self._library.fault_count(kind)
        return counted

    @property
    def changes(self) -> int:
        """Calls that change a file."""
        counted: int = self._library.fault_count(-1)
        return counted

    @property
    def hits(self) -> int:
        counted: int = self._library.fault_hits()
        return counted
