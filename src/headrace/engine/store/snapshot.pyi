from typing import final

from headrace.engine.store.log_view import LogView

@final
class Snapshot(LogView):
    damages: list[str]
    def __init__(self, directory: str, first: int = 0, last: int = ...) -> None: ...
    def sync(self) -> None: ...
    def next_live(self, seq: int) -> int: ...
