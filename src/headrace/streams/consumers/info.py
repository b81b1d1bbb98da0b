"""What a consumer tells about itself."""

from __future__ import annotations

import msgspec

from headrace.streams.api.wire_types import Duration, Int, Time, Uint64, always
from headrace.streams.config import ConsumerConfig, Wire
from headrace.streams.formats import ZERO_TIME

VERSION_KEYS = ("_nats.ver", "_nats.level")
REQUIRED_LEVEL = "_nats.req.level"
SERVER_VERSION = "2.15.1"
API_LEVEL = 5


class SequenceInfo(Wire):
    consumer_seq: Uint64 = always(0)
    stream_seq: Uint64 = always(0)
    last_active: Time | None = None


class PriorityGroupState(Wire):
    group: str = always("")
    pinned_client_id: str = ""
    pinned_ts: Time = always("")


class ConsumerInfo(Wire):
    stream_name: str = always("")
    name: str = always("")
    created: Time = always("")
    config: ConsumerConfig | None = None
    delivered: SequenceInfo = always(None)
    ack_floor: SequenceInfo = always(None)
    num_ack_pending: Int = always(0)
    num_redelivered: Int = always(0)
    num_waiting: Int = always(0)
    num_pending: Uint64 = always(0)
    push_bound: bool = False
    paused: bool = False
    pause_remaining: Duration = 0
    ts: Time = always("")
    priority_groups: list[PriorityGroupState] = msgspec.field(default_factory=list)


class ResetInfo(ConsumerInfo):
    reset_seq: Uint64 = always(0)


def set_required_level(config: ConsumerConfig) -> None:
    """Note which level of the API the configuration needs; forget what an answer had added."""
    level = 0
    if (
        (config.pause_until and config.pause_until != ZERO_TIME)
        or config.priority_policy != "none"
        or config.priority_timeout
        or config.priority_groups
    ):
        level = 1
    if config.ack_policy == "flow_control":
        level = 4
    metadata = {key: value for key, value in config.metadata.items() if key not in VERSION_KEYS}
    config.metadata = {**metadata, REQUIRED_LEVEL: str(level)}


def copy_required_level(config: ConsumerConfig, old: ConsumerConfig) -> None:
    """Make configurations comparable: the level is the old one's."""
    metadata = {key: value for key, value in config.metadata.items() if key not in VERSION_KEYS}
    metadata.pop(REQUIRED_LEVEL, None)
    if REQUIRED_LEVEL in old.metadata:
        metadata[REQUIRED_LEVEL] = old.metadata[REQUIRED_LEVEL]
    config.metadata = metadata


def with_versions(info: ConsumerInfo) -> ConsumerInfo:
    """As answers have it: with the server's version and API level among the metadata."""
    assert info.config is not None
    versions = {"_nats.ver": SERVER_VERSION, "_nats.level": str(API_LEVEL)}
    config = msgspec.structs.replace(info.config)
    config.metadata = {**config.metadata, **versions}
    info.config = config
    return info
