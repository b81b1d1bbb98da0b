"""How many bytes streams use, counted as their limits count: of a server, an account, a stream.

Each stream reports when its log has changed. When the usage of the server crosses its limit, all streams of
that storage are notified: the engine accepts their publishes by itself only while there is room. A limit of
the account is checked before each message, so with such a limit the engine accepts none by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.engine.store.log import Log


class Usage:
    """The bytes of many streams, by storage, and their limits; a limit of -1 means no limit."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = limits
        self._used = dict.fromkeys(limits, 0)
        self.listeners: set[StreamUsage] = set()

    def set_limits(self, limits: Mapping[str, int]) -> None:
        self._limits = limits

    def is_limited(self, storage: str) -> bool:
        return self._limits[storage] >= 0

    def is_full(self, storage: str) -> bool:
        return self._used[storage] > self._limits[storage] >= 0

    def would_exceed(self, storage: str, size: int) -> bool:
        """Whether `size` more bytes are too many."""
        return self._used[storage] + size > self._limits[storage] >= 0

    def add(self, storage: str, size: int) -> None:
        was_full = self.is_full(storage)
        self._used[storage] += size
        if self.is_full(storage) != was_full:
            for listener in list(self.listeners):
                if listener.storage == storage:
                    listener.on_change()


class StreamUsage:
    """The bytes of one stream. `on_change` is called when the server becomes full, or has room again."""

    def __init__(
        self, server: Usage, account: Usage, log: Log, storage: str, on_change: Callable[[], None]
    ) -> None:
        self._server = server
        self._account = account
        self._log = log
        self._counted = 0
        self.storage = storage
        self.on_change = on_change
        server.listeners.add(self)

    @property
    def is_full(self) -> bool:
        """Whether the server accepts nothing more for this storage."""
        self.update()
        return self._server.is_full(self.storage)

    @property
    def is_limited(self) -> bool:
        """Whether the account has a limit for this storage."""
        return self._account.is_limited(self.storage)

    def belongs_to(self, account: Usage) -> bool:
        return self._account is account

    def would_exceed(self, size: int) -> bool:
        """Whether `size` more bytes are too many for the account."""
        self.update()
        return self._account.would_exceed(self.storage, size)

    def update(self) -> None:
        self._add(self._log.byte_count - self._counted)

    def leave(self) -> None:
        """The stream no longer exists, and uses nothing."""
        self._server.listeners.discard(self)
        self._add(-self._counted)

    def _add(self, change: int) -> None:
        if change:
            self._counted += change
            self._account.add(self.storage, change)
            self._server.add(self.storage, change)
