"""A server whose calls on its store fail or kill it, one at a time: faults.c from outside.

Calls count from `begin` on, so that the same day has about the same numbers every time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.adversity.zygote import ForkedServer, Zygote
from tests.engine.store.fault_library import Kind, compile_library
from tests.sanitizers import behind_them

SEGMENT_BYTES = 4096
_COUNTS = struct.Struct(f"{len(Kind) + 2}q")


class FaultyServers:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.store = directory / "store"
        self._order = directory / "order"
        self._counts = directory / "counts"
        self._counts.write_bytes(bytes(_COUNTS.size))
        environment = {
            "LD_PRELOAD": behind_them(compile_library(directory)),
            "FAULT_WATCH": str(self.store),
            "FAULT_FILE": str(self._order),
            "FAULT_COUNTS": str(self._counts),
        }
        self._zygote = Zygote(SEGMENT_BYTES, environment)

    @contextmanager
    def server(self, *flags: str, order: str = "") -> Iterator[ForkedServer]:
        """One without faults until `begin`, or with them while it starts."""
        self._order.unlink(missing_ok=True)
        if order:
            self.begin(order)
        with self._zygote.server(self.store, self._directory / "log", *flags) as server:
            yield server

    def begin(self, order: str) -> None:
        """`kind first last error` or `kill n`, for the server that is running; it counts from now on."""
        temporary = self._order.with_suffix(".new")
        temporary.write_text(order)
        temporary.rename(self._order)

    def counts(self) -> dict[Kind, int]:
        return dict(zip(Kind, _COUNTS.unpack(self._counts.read_bytes()), strict=False))

    @property
    def changes(self) -> int:
        changed: int = _COUNTS.unpack(self._counts.read_bytes())[len(Kind)]
        return changed

    @property
    def hits(self) -> int:
        hit: int = _COUNTS.unpack(self._counts.read_bytes())[len(Kind) + 1]
        return hit

    def close(self) -> None:
        self._zygote.close()
