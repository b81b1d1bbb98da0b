from typing import Generic, TypeVar

from headrace.engine.basics.filters import Filter

T = TypeVar("T")

class Audiences(Generic[T]):
    def enlist(self, watcher: T, filter: Filter) -> None: ...  # noqa: A002
    def who_asked_for(self, subject: bytes) -> list[T]: ...
