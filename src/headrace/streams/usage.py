"""How much of the server's memory and disk its streams use, in the bytes that their limits count.

Each stream reports when its log has changed. When a limit of the server is crossed, all streams of that
storage are told: the engine takes their publishes by itself only while there is room. A limit of the account
is checked before each message, so where there is one the engine takes none by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.engine.store.log import Log
    from headrace.streams.account import Account


class Usage:
    """Of one server; all of its streams share it."""

    def __init__(self, account: Account) -> None:
        self._limits = {"memory": account.max_memory, "file": account.max_storage}
        self._account_limits = {"memory": account.limits.max_memory, "file": account.limits.max_storage}
        self._used = {"memory": 0, "file": 0}
        self._shares: set[Share] = set()

    def is_full(self, storage: str) -> bool:
        return self._used[storage] > self._limits[storage] >= 0

    def is_limited(self, storage: str) -> bool:
        """Whether the account has a limit."""
        return self._account_limits[storage] >= 0

    def would_exceed(self, storage: str, size: int) -> bool:
        """Whether so many bytes more are too many for the account."""
        return self._used[storage] + size > self._account_limits[storage] >= 0

    def add(self, storage: str, size: int) -> None:
        was_full = self.is_full(storage)
        self._used[storage] += size
        if self.is_full(storage) != was_full:
            for share in list(self._shares):
                if share.storage == storage:
                    share.on_change()

    def join(self, share: Share) -> None:
        self._shares.add(share)

    def leave(self, share: Share) -> None:
        self._shares.discard(share)


class Share:
    """What one stream uses. `on_change` is called when the server has become full, or has room again."""

    def __init__(self, usage: Usage, log: Log, storage: str, on_change: Callable[[], None]) -> None:
        self._usage = usage
        self._log = log
        self._counted = 0
        self.storage = storage
        self.on_change = on_change
        usage.join(self)

    @property
    def is_full(self) -> bool:
        """Whether the server takes nothing more of this storage."""
        self.update()
        return self._usage.is_full(self.storage)

    @property
    def is_limited(self) -> bool:
        return self._usage.is_limited(self.storage)

    def would_exceed(self, size: int) -> bool:
        self.update()
        return self._usage.would_exceed(self.storage, size)

    def update(self) -> None:
        change = self._log.byte_count - self._counted
        if change:
            self._counted += change
            self._usage.add(self.storage, change)

    def leave(self) -> None:
        """The stream is gone, and what it used."""
        self._usage.leave(self)
        self._usage.add(self.storage, -self._counted)
        self._counted = 0
