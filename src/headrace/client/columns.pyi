from typing import final

from headrace.client.frames import Event, Frames

@final
class Buffer:
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Columns:
    sid: int
    rows: int
    credit: int
    low_credit: int
    last_seq: int
    pending: int
    jumped_from: int
    complete: bool
    def __init__(
        self,
        sid: int,
        *,
        first: int,
        last: int,
        batch_rows: int = 32768,
        batch_bytes: int = ...,
        headers: bool = True,
    ) -> None: ...
    @property
    def full(self) -> bool: ...
    def follow(self, sid: int) -> None: ...
    def read(self, frames: Frames, timeout: float) -> Event | None: ...
    def take(self) -> tuple[int, int, tuple[Buffer, ...]]: ...
