from typing import final

from headrace.engine.core.filters import Filter
from headrace.engine.store.store import Watcher

@final
class Stored:
    seq: int
    time: int
    subject: bytes
    headers: bytes
    payload: bytes

class Readings:
    first_seq: int
    last_seq: int
    committed_seq: int
    count: int
    byte_count: int
    last_time: int
    @property
    def first_time(self) -> int: ...
    @property
    def num_deleted(self) -> int: ...
    @property
    def num_subjects(self) -> int: ...
    @property
    def segment_files(self) -> int: ...
    def get(self, seq: int) -> Stored | None: ...
    def has(self, seq: int) -> bool: ...
    def next(self, seq: int, filter: Filter) -> Stored | None: ...  # noqa: A002
    def look_for(self, seq: int, filter: Filter, looks: int) -> tuple[Stored | None, int]: ...  # noqa: A002
    def last(self, filter_subject: bytes) -> int: ...
    def subject_state(self, subject: bytes) -> tuple[int, int, int] | None: ...
    def subjects(self, filter: Filter) -> dict[bytes, tuple[int, int, int]]: ...  # noqa: A002
    def last_up_to(self, filter: Filter, up_to: int) -> dict[bytes, int]: ...  # noqa: A002
    def first_up_to(self, found: dict[bytes, int], filter: Filter, up_to: int) -> int: ...  # noqa: A002
    def note_last(
        self,
        found: dict[bytes, int],
        filter: Filter,  # noqa: A002
        seq: int,
        up_to: int,
        looks: int,
    ) -> int: ...
    def last_sequences(self, filter: Filter) -> list[int]: ...  # noqa: A002
    def count_subjects(self, filter: Filter, start: int = 0, most: int = ...) -> dict[bytes, int]: ...  # noqa: A002
    @property
    def subject_places(self) -> int: ...
    def seek_time(self, time: int) -> int: ...
    def count_from(self, seq: int, filter: Filter) -> int: ...  # noqa: A002
    def deleted(self, seq: int = 0, most: int = ...) -> list[int]: ...
    def seq_from_end(self, messages: int) -> int: ...
    def add_watcher(self, watcher: Watcher) -> None: ...
    def begin_to_watch(self, watcher: Watcher) -> None: ...
    def count_ahead(self, watcher: Watcher, looks: int) -> bool: ...
    def remove_watcher(self, watcher: Watcher) -> None: ...
