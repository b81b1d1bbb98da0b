from typing import final

from typing_extensions import Buffer

class BadRow(ValueError):
    row: int
    reason: str
    def __init__(self, row: int, reason: str) -> None: ...

class Offsets:
    length: int
    def __init__(self, length: int, first: int, validity: Buffer | None, offsets: Buffer | None) -> None: ...

@final
class TextColumn(Offsets):
    def __init__(
        self,
        length: int,
        first: int,
        validity: Buffer | None,
        offsets: Buffer | None,
        data: Buffer | None,
    ) -> None: ...

@final
class Outgoing:
    count: int
    def __init__(
        self,
        count: int,
        subject: bytes | TextColumn,
        payloads: TextColumn,
        *,
        header_lists: Offsets | None = None,
        keys: TextColumn | None = None,
        values: TextColumn | None = None,
        msg_ids: TextColumn | None = None,
    ) -> None: ...
    def check(self, max_payload: int) -> None: ...
