"""The level of the JetStream API that a stream or consumer needs, and that of this server, in their metadata.

The required level is stored with the configuration. The version and level of this server are added to
responses only.
"""

from __future__ import annotations

from headrace.config.options import API_LEVEL, NATS_VERSION
from headrace.streams.config import ConsumerConfig, StreamConfig
from headrace.streams.formats import ZERO_TIME

VERSION_KEY = "_nats.ver"
LEVEL_KEY = "_nats.level"
REQUIRED_LEVEL_KEY = "_nats.req.level"

Metadata = dict[str, str]


def set_required_level(config: StreamConfig | ConsumerConfig) -> None:
    """Set the level that the configuration needs, and remove what a response had added."""
    level = _stream_level(config) if isinstance(config, StreamConfig) else _consumer_level(config)
    config.metadata = {**_without_server(config.metadata), REQUIRED_LEVEL_KEY: str(level)}


def with_level_of(old: Metadata, metadata: Metadata) -> Metadata:
    """For comparing configurations: the level is set by the server, so the old one is used."""
    metadata = _without_server(metadata)
    metadata.pop(REQUIRED_LEVEL_KEY, None)
    if REQUIRED_LEVEL_KEY in old:
        metadata[REQUIRED_LEVEL_KEY] = old[REQUIRED_LEVEL_KEY]
    return metadata


def with_server_metadata(metadata: Metadata) -> Metadata:
    """For a response, which also says which server runs the stream or consumer."""
    return {**metadata, VERSION_KEY: NATS_VERSION, LEVEL_KEY: str(API_LEVEL)}


def _without_server(metadata: Metadata) -> Metadata:
    return {key: value for key, value in metadata.items() if key not in (VERSION_KEY, LEVEL_KEY)}


def _stream_level(config: StreamConfig) -> int:
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


def _consumer_level(config: ConsumerConfig) -> int:
    if config.ack_policy == "flow_control":
        return 4
    has_groups = config.priority_policy != "none" or config.priority_timeout or config.priority_groups
    return 1 if has_groups or (config.pause_until and config.pause_until != ZERO_TIME) else 0
