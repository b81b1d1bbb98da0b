"""The account: what its streams use together, what they may use, and how often its API was asked.

There is one: the global account `$G`, or the one that the configuration names. Limits of -1 are none.
A stream with `max_bytes` reserves them, so that it can be filled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from headrace.config.options import API_LEVEL, GLOBAL_ACCOUNT
from headrace.config.options import AccountLimits as ConfiguredLimits
from headrace.errors import ConfigError
from headrace.streams.config import StreamConfig, Wire
from headrace.streams.errors import api_error
from headrace.streams.subject_tree import SubjectTree
from headrace.streams.wire_types import Int, Int64, Uint64, always

if TYPE_CHECKING:
    from headrace.streams.stream import Stream


class AccountLimits(Wire):
    max_memory: Int64 = always(-1)
    max_storage: Int64 = always(-1)
    max_streams: Int = always(-1)
    max_consumers: Int = always(-1)
    max_ack_pending: Int = always(-1)
    memory_max_stream_bytes: Int64 = always(-1)
    storage_max_stream_bytes: Int64 = always(-1)
    max_bytes_required: bool = always(False)


class ApiUse(Wire):
    level: Int = always(API_LEVEL)
    total: Uint64 = always(0)
    errors: Uint64 = always(0)


class AccountInfo(Wire):
    memory: Uint64 = always(0)
    storage: Uint64 = always(0)
    reserved_memory: Uint64 = always(0)
    reserved_storage: Uint64 = always(0)
    streams: Int = always(0)
    consumers: Int = always(0)
    limits: AccountLimits = always(None)
    domain: str = ""
    api: ApiUse = always(None)


class Account:
    """`max_memory` and `max_storage` are the server's own limits, in bytes."""

    def __init__(
        self,
        streams: Mapping[str, Stream],
        *,
        name: str = GLOBAL_ACCOUNT,
        is_enabled: bool = True,
        limits: ConfiguredLimits | None = None,
        max_memory: int,
        max_storage: int,
        max_duplicate_window: int = 0,
        domain: str = "",
    ) -> None:
        self.streams = streams
        self.subjects = SubjectTree()
        self.name = name
        self.is_enabled = is_enabled
        """Whether it may have streams; otherwise every request is refused."""
        self.limits = AccountLimits(**msgspec.structs.asdict(limits or ConfiguredLimits()))
        self.max_memory = max_memory
        self.max_storage = max_storage
        self.max_duplicate_window = max_duplicate_window
        self.domain = domain
        self.api_total = 0
        self.api_errors = 0

    def configs(self) -> dict[str, StreamConfig]:
        """The configurations of all streams, by name."""
        return {name: stream.config for name, stream in self.streams.items()}

    def take_subjects(self, config: StreamConfig, old: StreamConfig | None = None) -> None:
        """A stream has these subjects from now on, and not those it had before."""
        if old:
            self.leave_subjects(old)
        for subject in config.subjects:
            self.subjects.add(subject, config.name)

    def leave_subjects(self, config: StreamConfig) -> None:
        for subject in config.subjects:
            self.subjects.discard(subject, config.name)

    def count_request(self, *, failed: bool) -> None:
        if self.is_enabled:
            self.api_total += 1
            self.api_errors += failed

    def info(self) -> AccountInfo:
        return AccountInfo(
            memory=self.used("memory"),
            storage=self.used("file"),
            reserved_memory=self.reserved("memory"),
            reserved_storage=self.reserved("file"),
            streams=len(self.streams),
            consumers=sum(len(stream.consumers) for stream in self.streams.values()),
            limits=self.limits,
            domain=self.domain,
            api=ApiUse(total=self.api_total, errors=self.api_errors),
        )

    def used(self, storage: str) -> int:
        """Bytes of messages in streams of that storage."""
        streams = (stream for stream in self.streams.values() if stream.config.storage == storage)
        return sum(stream.log.byte_count for stream in streams)

    def reserved(self, storage: str, *, but: str = "") -> int:
        """Bytes that streams of that storage were promised; `but` one."""
        return sum(
            max(stream.config.max_bytes, 0)
            for name, stream in self.streams.items()
            if stream.config.storage == storage and name != but
        )

    def check_promised(self) -> None:
        """Raises ConfigError if the account may use more than the server has."""
        for name, promised, limit in (
            ("memory_resources_exceeded", self.limits.max_memory, self.max_memory),
            ("storage_resources_exceeded", self.limits.max_storage, self.max_storage),
        ):
            if self.is_enabled and max(promised, 0) > limit:
                error = api_error(name)
                raise ConfigError(
                    f"Error enabling jetstream on configured accounts: {error.description} ({error.err_code})"
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
        """`reserved` is what the account has promised beside the growth."""
        if 0 < self.limits.max_consumers < config.max_consumers:
            raise api_error("maximum_consumers_limit")
        growth = 1 if growth < 0 else growth
        in_memory = config.storage == "memory"
        account_limit = self.limits.max_memory if in_memory else self.limits.max_storage
        server_limit = self.max_memory if in_memory else self.max_storage
        name = "memory_resources_exceeded" if in_memory else "storage_resources_exceeded"
        if account_limit >= 0 and growth > account_limit - reserved:
            raise api_error(name)
        if growth > server_limit - self.reserved(config.storage):
            raise api_error(name)
