from collections.abc import Callable
from typing import final

class InvalidSubject(ValueError): ...

class Subscription:
    subject: bytes
    queue: bytes | None
    sid: bytes
    delivered: int
    maximum: int
    def __init__(self, subject: bytes, queue: bytes | None, sid: bytes) -> None: ...

@final
class Interest:
    count: int
    inserts: int
    removes: int
    matches: int
    cache_hits: int
    @property
    def cached_routes(self) -> int: ...
    @property
    def cached_fanout(self) -> tuple[int, int]: ...
    @property
    def node_count(self) -> int: ...
    watched: dict[bytes, Callable[[], None]]
    def has(self, subject: bytes) -> bool: ...
    def add(self, subscription: Subscription) -> None: ...
    def discard(self, subscription: Subscription) -> None: ...
    def match(self, subject: bytes) -> tuple[list[Subscription], list[list[Subscription]]]: ...
