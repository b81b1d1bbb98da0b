from typing import final

from headrace.client.columns import Columns
from headrace.engine.basics.filters import Filter
from headrace.engine.store.snapshot import Snapshot

@final
class StoredRows:
    next_seq: int
    damaged: bool
    def __init__(self, snapshot: Snapshot, filter: Filter, first: int, last: int) -> None: ...  # noqa: A002
    def fill(self, columns: Columns) -> None: ...
    def pass_over(self) -> None: ...
