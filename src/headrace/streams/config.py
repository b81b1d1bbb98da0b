"""The configuration of streams and consumers, with the field names, defaults and omissions of the wire.

A field whose default is given with `always` is written even if nobody set it. All others are left out
when they are empty, as nats-server does.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headrace.streams.wire_types import (
    AckPolicy,
    Compression,
    ConsumerAction,
    DeliverPolicy,
    Discard,
    Duration,
    Int,
    Int32,
    Int64,
    PersistMode,
    PriorityPolicy,
    ReplayPolicy,
    Retention,
    Storage,
    Time,
    Uint64,
    always,
)


class Wire(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The base of all structs of the API. Errors name a struct by its `go_name`, or by its class."""

    go_name: ClassVar[str] = ""


class Placement(Wire):
    cluster: str = ""
    tags: list[str] = []
    preferred: str = ""


class SubjectTransform(Wire):
    go_name = "SubjectTransformConfig"

    src: str = always("")
    dest: str = always("")


class RePublish(Wire):
    src: str = ""
    dest: str = always("")
    headers_only: bool = False


class External(Wire):
    """Where a mirrored stream is, if not in this account: the prefixes of its API and of deliveries."""

    go_name = "ExternalStream"

    api: str = always("")
    deliver: str = always("")


class SourceConsumer(Wire):
    """A durable consumer to read a source through."""

    go_name = "StreamConsumerSource"

    name: str = ""
    deliver_subject: str = ""


class StreamSource(Wire):
    name: str = always("")
    opt_start_seq: Uint64 = 0
    opt_start_time: Time | None = None
    filter_subject: str = ""
    subject_transforms: list[SubjectTransform] = []
    external: External | None = None
    consumer: SourceConsumer | None = None


class ConsumerLimits(Wire):
    """The defaults of a stream's consumers, and the maximum that they may ask for."""

    go_name = "StreamConsumerLimits"

    inactive_threshold: Duration = 0
    max_ack_pending: Int = 0


class StreamConfig(Wire):
    name: str = always("")
    description: str = ""
    subjects: list[str] = []
    retention: Retention = always("limits")
    max_consumers: Int = always(0)
    max_msgs: Int64 = always(0)
    max_bytes: Int64 = always(0)
    max_age: Duration = always(0)
    max_msgs_per_subject: Int64 = always(0)
    max_msg_size: Int32 = 0
    discard: Discard = always("old")
    storage: Storage = always("file")
    num_replicas: Int = always(0)
    no_ack: bool = False
    duplicate_window: Duration = 0
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: list[StreamSource] = []
    compression: Compression = always("none")
    first_seq: Uint64 = 0
    subject_transform: SubjectTransform | None = None
    republish: RePublish | None = None
    allow_direct: bool = always(False)
    mirror_direct: bool = always(False)
    discard_new_per_subject: bool = False
    sealed: bool = always(False)
    deny_delete: bool = always(False)
    deny_purge: bool = always(False)
    allow_rollup_hdrs: bool = always(False)
    consumer_limits: ConsumerLimits = msgspec.field(default_factory=ConsumerLimits)
    allow_msg_ttl: bool = always(False)
    subject_delete_marker_ttl: Duration = 0
    allow_msg_counter: bool = False
    allow_atomic: bool = False
    allow_msg_schedules: bool = False
    persist_mode: PersistMode = "default"
    allow_batched: bool = False
    metadata: dict[str, str] = {}


class StreamConfigRequest(StreamConfig):
    """A request to create or update a stream."""

    pedantic: bool = False


class ConsumerConfig(Wire):
    durable_name: str = ""
    name: str = ""
    description: str = ""
    deliver_policy: DeliverPolicy = always("all")
    opt_start_seq: Uint64 = 0
    opt_start_time: Time | None = None
    ack_policy: AckPolicy = always("none")
    ack_wait: Duration = 0
    max_deliver: Int = 0
    backoff: list[Duration] = []
    filter_subject: str = ""
    filter_subjects: list[str] = []
    replay_policy: ReplayPolicy = always("instant")
    rate_limit_bps: Uint64 = 0
    sample_freq: str = ""
    max_waiting: Int = 0
    max_ack_pending: Int = 0
    flow_control: bool = False
    headers_only: bool = False
    max_batch: Int = 0
    max_expires: Duration = 0
    max_bytes: Int = 0
    deliver_subject: str = ""
    deliver_group: str = ""
    idle_heartbeat: Duration = 0
    inactive_threshold: Duration = 0
    num_replicas: Int = always(0)
    mem_storage: bool = False
    direct: bool = False
    sourcing: bool = False
    metadata: dict[str, str] = {}
    pause_until: Time | None = None
    priority_groups: list[str] = []
    priority_policy: PriorityPolicy = "none"
    priority_timeout: Duration = 0


class CreateConsumerRequest(Wire):
    stream_name: str = always("")
    config: ConsumerConfig = msgspec.field(default_factory=ConsumerConfig)
    action: ConsumerAction = always("")
    pedantic: bool = False
