from collections.abc import Callable, Iterable
from typing import Any, final

from headrace.engine.committer import Committer
from headrace.engine.filters import Filter
from headrace.engine.readings import Readings

class Refused(Exception):
    reason: str
    def __init__(self, reason: str) -> None: ...

@final
class Log(Readings):
    failure: str | None
    refusal: str | None
    directory: str | None
    segment_bytes: int
    damages: list[str]
    on_committed: Callable[[], Any] | None
    on_warning: Callable[[str], Any] | None
    def __init__(
        self,
        directory: str | None = None,
        *,
        committer: Committer | None = None,
        segment_bytes: int = ...,
        compression: str = "none",
    ) -> None: ...
    @property
    def backlog_bytes(self) -> int: ...
    def recover(self) -> list[str]: ...
    def configure(
        self,
        *,
        max_msgs: int = -1,
        max_bytes: int = -1,
        max_msgs_per_subject: int = -1,
        discard_new: bool = False,
        discard_new_per_subject: bool = False,
        at_once: bool = True,
        compression: str | None = None,
    ) -> None: ...
    def enforce(self, most: int) -> bool: ...
    def append(self, subject: bytes, headers: bytes, payload: bytes, time: int = 0, seq: int = 0) -> int: ...
    def skip(self, next_seq: int) -> None: ...
    def remove(self, seq: int, *, erase: bool = False) -> bool: ...
    def remove_many(self, seqs: Iterable[int]) -> int: ...
    def remove_matching(
        self,
        seq: int,
        last: int,
        filter: Filter,  # noqa: A002
        most: int,
        looks: int,
    ) -> tuple[int, int]: ...
    def compact(self, first_seq: int, most: int = ...) -> int: ...
    def purge(self) -> int: ...
    def commit(self) -> int: ...
    def when_committed(self, callback: Callable[[str | None], Any]) -> None: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...
    def destroy(self) -> None: ...
