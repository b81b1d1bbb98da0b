"""How much memory and disk the server and its accounts may use, and how much of it streams have reserved.

A stream with `max_bytes` reserves them, so that it can always be filled. A limit of -1 means no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from headrace.config.identity import AccountLimits as ConfiguredLimits
from headrace.errors import ConfigError
from headrace.streams.config import StreamConfig, Wire
from headrace.streams.errors import api_error
from headrace.streams.slices import STEP_SUBJECTS, Work
from headrace.streams.subject_tree import SubjectTree
from headrace.streams.usage import Usage
from headrace.streams.wire_types import Int, Int64, always

if TYPE_CHECKING:
    from headrace.streams.stream import Stream

RESOURCES_EXCEEDED = {"memory": "memory_resources_exceeded", "file": "storage_resources_exceeded"}


class AccountLimits(Wire):
    max_memory: Int64 = always(-1)
    max_storage: Int64 = always(-1)
    max_streams: Int = always(-1)
    max_consumers: Int = always(-1)
    max_ack_pending: Int = always(-1)
    memory_max_stream_bytes: Int64 = always(-1)
    storage_max_stream_bytes: Int64 = always(-1)
    max_bytes_required: bool = always(False)


class BatchesInFlight:
    """Batches of all streams that have begun but are not committed; `size` is in bytes."""

    def __init__(self) -> None:
        self.count = 0
        self.size = 0


class ServerResources:
    """The limits of the server, in bytes, and what all of its accounts have reserved together."""

    def __init__(self, *, max_memory: int, max_storage: int, max_duplicate_window: int = 0) -> None:
        self.limits = {"memory": max_memory, "file": max_storage}
        self.max_duplicate_window = max_duplicate_window
        self.usage = Usage(self.limits)
        self.batches = BatchesInFlight()
        self.fast_batches = BatchesInFlight()
        self.accounts: list[AccountResources] = []

    def reserved(self, storage: str) -> int:
        return sum(account.reserved(storage) for account in self.accounts)

    def check_promised(self) -> None:
        """Raises ConfigError if the accounts may use more than the server has."""
        for storage, limit in self.limits.items():
            promised = sum(max(account.limit(storage), 0) for account in self.accounts if account.is_enabled)
            if promised > limit:
                error = api_error(RESOURCES_EXCEEDED[storage])
                raise ConfigError(
                    f"Error enabling jetstream on configured accounts: {error.description} ({error.err_code})"
                )


class AccountResources:
    """The limits of one account, and what its streams use and reserve."""

    def __init__(
        self,
        streams: Mapping[str, Stream],
        server: ServerResources,
        *,
        is_enabled: bool = True,
        limits: ConfiguredLimits | None = None,
    ) -> None:
        self.streams = streams
        self.subjects = SubjectTree()
        self.is_enabled = is_enabled
        """Whether the account may have streams; otherwise every request is refused."""
        self.limits = AccountLimits(**msgspec.structs.asdict(limits or ConfiguredLimits()))
        self.usage = Usage({"memory": self.limits.max_memory, "file": self.limits.max_storage})
        self.server = server
        server.accounts.append(self)

    def set_limits(self, limits: ConfiguredLimits | None) -> None:
        """The limits apply from now on; what is already there stays."""
        self.limits = AccountLimits(**msgspec.structs.asdict(limits or ConfiguredLimits()))
        self.usage.set_limits({"memory": self.limits.max_memory, "file": self.limits.max_storage})
        for listener in list(self.server.usage.listeners):
            if listener.belongs_to(self.usage):
                listener.on_change()

    def configs(self) -> dict[str, StreamConfig]:
        """The configurations of all streams, by name."""
        return {name: stream.config for name, stream in self.streams.items()}

    def add_subjects(self, config: StreamConfig, old: StreamConfig | None = None) -> Work[None]:
        """Record that a stream has these subjects, and no longer those of its old configuration."""
        if old:
            yield from self.remove_subjects(old)
        yield from self.subjects.add_all(config.subjects, config.name)

    def remove_subjects(self, config: StreamConfig) -> Work[None]:
        for index, subject in enumerate(config.subjects):
            if index % STEP_SUBJECTS == 0:
                yield
            self.subjects.discard(subject, config.name)

    def limit(self, storage: str) -> int:
        return self.limits.max_memory if storage == "memory" else self.limits.max_storage

    def used(self, storage: str) -> int:
        """Bytes of messages in streams of that storage."""
        streams = (stream for stream in self.streams.values() if stream.config.storage == storage)
        return sum(stream.log.byte_count for stream in streams)

    def reserved(self, storage: str, *, but: str = "") -> int:
        """Bytes that streams of that storage have reserved, without those of the stream `but`."""
        return sum(
            max(stream.config.max_bytes, 0)
            for name, stream in self.streams.items()
            if stream.config.storage == storage and name != but
        )

    def check_create(self, config: StreamConfig) -> None:
        """Raises ApiError unless there is room for one more stream."""
        others = len(self.streams) - (config.name in self.streams)
        if 0 < self.limits.max_streams <= others:
            raise api_error("maximum_streams_limit")
        self.check_room(config, config.max_bytes, self.reserved(config.storage, but=config.name))

    def check_update(self, old: StreamConfig, config: StreamConfig) -> None:
        """Raises ApiError unless the stream may grow to its new size."""
        growth = max(max(config.max_bytes, 0) - max(old.max_bytes, 0), 0)
        others = self.reserved(config.storage, but=config.name)
        self.check_room(config, growth, others + max(config.max_bytes - growth, 0))

    def check_room(self, config: StreamConfig, growth: int, reserved: int) -> None:
        """`reserved` is what the account has reserved apart from the growth."""
        if 0 < self.limits.max_consumers < config.max_consumers:
            raise api_error("maximum_consumers_limit")
        growth = 1 if growth < 0 else growth
        storage, limit = config.storage, self.limit(config.storage)
        is_too_much = 0 <= limit < growth + reserved
        if is_too_much or growth > self.server.limits[storage] - self.server.reserved(storage):
            raise api_error(RESOURCES_EXCEEDED[storage])
