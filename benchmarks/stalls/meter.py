"""The longest turn of a server's event loop, in CPU time, as recorded by steps.c."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

FIELDS = struct.Struct("<5Q")  # epoch, seen, turns, longest, total
PATIENCE_SECONDS = 60.0
SOURCE = Path(__file__).with_name("steps.c")


def build(folder: Path) -> Path:
    """Compile the library to preload."""
    made = folder / "steps.so"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        compiler = "cc"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", made, SOURCE, "-ldl"], check=True)
    return made


class Meter:
    """The meter of one server, which has to be started within `preloaded`."""

    def __init__(self, folder: Path) -> None:
        self._library = build(folder)
        self._path = folder / "steps"
        self._path.write_bytes(bytes(FIELDS.size))
        with self._path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), FIELDS.size)

    def __enter__(self) -> Meter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shared.close()

    @contextmanager
    def preloaded(self) -> Iterator[None]:
        """Servers that are started in the block are metered; one at a time."""
        set_ = {"LD_PRELOAD": str(self._library), "HEADRACE_STEPS": str(self._path)}
        old = {name: os.environ.get(name) for name in set_}
        os.environ.update(set_)
        try:
            yield
        finally:
            for name, value in old.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    @property
    def is_read(self) -> bool:
        """Whether there is a server that reports; one that is linked statically does not."""
        return self._read()[2] > 0

    def begin(self) -> None:
        """Forget all turns so far; a turn in progress does not count."""
        epoch = self._read()[0] + 1
        self._shared[:8] = struct.pack("<Q", epoch)
        self._await(lambda fields: fields[1] == epoch)

    def longest_seconds(self) -> float:
        """Of the turns that have begun and ended since."""
        turns = self._read()[2]
        self._await(lambda fields: fields[2] > turns)  # the one that did the work has ended
        return self.longest_so_far()

    def longest_so_far(self) -> float:
        """The same, of a server that may have ended."""
        return self._read()[3] / 1e9

    def total_seconds(self) -> float:
        """Of all turns that have begun and ended since."""
        return self._read()[4] / 1e9

    def _read(self) -> tuple[int, ...]:
        return FIELDS.unpack(self._shared[:])

    def _await(self, condition: Callable[[tuple[int, ...]], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition(self._read()):  # a server has a timer every second at the latest
            if time.monotonic() > deadline:
                raise TimeoutError("the event loop of the server does not turn")
            time.sleep(0.001)
