"""What the API tells about a stream: its configuration, its state, and where it is."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.streams.account import API_LEVEL
from headrace.streams.api.wire_types import Int, Uint64, always
from headrace.streams.config import StreamConfig, Wire

NATS_VERSION_KEY = "_nats.ver"
LEVEL_KEY = "_nats.level"
REQUIRED_LEVEL_KEY = "_nats.req.level"


class StreamState(Wire):
    messages: Uint64 = always(0)
    bytes: Uint64 = always(0)
    first_seq: Uint64 = always(0)
    first_ts: str = always("")
    last_seq: Uint64 = always(0)
    last_ts: str = always("")
    num_subjects: Int = 0
    subjects: dict[str, int] = msgspec.field(default_factory=dict)
    num_deleted: Int = 0
    deleted: msgspec.Raw | None = None  # a list of sequences
    consumer_count: Int = always(0)


class ClusterInfo(Wire):
    """On a server of its own: just its name."""

    leader: str = ""


class StreamInfo(Wire):
    config: StreamConfig = always(None)
    created: str = always("")
    state: StreamState = always(None)
    domain: str = ""
    cluster: ClusterInfo | None = None
    mirror: dict[str, Any] | None = None
    sources: list[dict[str, Any]] = msgspec.field(default_factory=list)
    ts: str = always("")


def required_level(config: StreamConfig) -> int:
    """The lowest API level of a server that can run this stream."""
    level = 0
    if config.allow_msg_ttl or config.subject_delete_marker_ttl > 0:
        level = 1
    if (
        config.allow_msg_counter
        or config.allow_atomic
        or config.allow_msg_schedules
        or config.persist_mode == "async"
    ):
        level = 2
    return 4 if config.allow_batched else level


def set_static_metadata(config: StreamConfig) -> None:
    """The level is stored with the stream; what describes this server is not."""
    kept = {key: value for key, value in config.metadata.items() if key not in (NATS_VERSION_KEY, LEVEL_KEY)}
    config.metadata = {**kept, REQUIRED_LEVEL_KEY: str(required_level(config))}


def with_server_metadata(config: StreamConfig, version: str) -> StreamConfig:
    """A copy for an answer: it also says which server runs the stream."""
    metadata = {**config.metadata, NATS_VERSION_KEY: version, LEVEL_KEY: str(API_LEVEL)}
    return msgspec.structs.replace(config, metadata=metadata)
