"""The JSON in requests and archives: what a client asks for, and the states of a stream and its consumers.

An archive has the field names of nats-server's Go structs where these have no others: `Sequence`,
`Timestamp`.
"""

from __future__ import annotations

from itertools import chain
from typing import Annotated

import msgspec

from headrace.engine.streams.pending import Pending
from headrace.engine.streams.s2 import Corrupt
from headrace.streams.api.json_requests import decode
from headrace.streams.api.stream_info import StreamState
from headrace.streams.config import ConsumerConfig, StreamConfig, Wire
from headrace.streams.consumers.on_disk.state import ConsumerState
from headrace.streams.errors import ApiError
from headrace.streams.wire_types import Int, Time, Uint64, always
from headrace.unreadable import UNREADABLE_JSON

STATE_NAME = b"state.json"
CONSUMER_PREFIX = b"consumers/"
LARGEST_SEQ = (1 << 64) - 2
LARGEST_COUNT = 1 << 62
"""Of deliveries. A restored consumer counts on from there, within the limit of on_disk/state.py."""
NOT_NEGATIVE = Annotated[int, msgspec.Meta(ge=0)]


class SnapshotRequest(Wire):
    go_name = "JSApiStreamSnapshotRequest"

    deliver_subject: str = always("")
    no_consumers: bool = False
    chunk_size: Int = 0
    window_size: Int = 0
    jsck: bool = False  # every message is checked whenever it is read


class ClaimedState(Wire):
    """The state in a request to restore. It is ignored in favor of the one in the archive."""

    go_name = "StreamState"

    messages: Uint64 = always(0)
    bytes: Uint64 = always(0)
    first_seq: Uint64 = always(0)
    first_ts: Time | None = None
    last_seq: Uint64 = always(0)
    last_ts: Time | None = None
    num_subjects: Int = 0
    num_deleted: Int = 0
    deleted: list[Uint64] = msgspec.field(default_factory=list)
    consumer_count: Int = always(0)


class RestoreRequest(Wire):
    go_name = "JSApiStreamRestoreRequest"

    config: StreamConfig = msgspec.field(default_factory=StreamConfig)
    state: ClaimedState = msgspec.field(default_factory=ClaimedState)


class ArchivedState(msgspec.Struct):
    """What a restore needs of `state.json`."""

    bytes: NOT_NEGATIVE = 0
    first_seq: NOT_NEGATIVE = 0
    last_seq: NOT_NEGATIVE = 0
    consumer_count: NOT_NEGATIVE = 0


class _Position(msgspec.Struct):
    consumer_seq: NOT_NEGATIVE = 0
    stream_seq: NOT_NEGATIVE = 0


class _Pending(msgspec.Struct):
    Sequence: NOT_NEGATIVE = 0
    Timestamp: int = 0


class _Progress(msgspec.Struct, omit_defaults=True):
    delivered: _Position = msgspec.field(default_factory=_Position)
    ack_floor: _Position = msgspec.field(default_factory=_Position)
    pending: dict[int, _Pending] | None = None
    redelivered: dict[int, NOT_NEGATIVE] | None = None


class _ArchivedConsumer(msgspec.Struct):
    config: msgspec.Raw
    state: _Progress


def encode_state(state: StreamState, consumers: int) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(state, consumer_count=consumers))


def decode_state(body: bytes) -> ArchivedState:
    """Raises Corrupt."""
    try:
        state = msgspec.json.decode(body, type=ArchivedState)
    except UNREADABLE_JSON as error:
        raise Corrupt(f"state.json cannot be read: {error}") from None
    if max(state.first_seq, state.last_seq) > LARGEST_SEQ or state.first_seq > state.last_seq + 1:
        raise Corrupt("state.json has impossible sequences")
    return state


def encode_consumer(name: str, config: ConsumerConfig, state: ConsumerState, last_seq: int) -> bytes:
    """Without anything above `last_seq`: those messages are not in the archive. Slow if much is pending."""
    config = msgspec.structs.replace(config, name=name)
    progress = _Progress(
        delivered=_Position(state.delivered_consumer, min(state.delivered_stream, last_seq)),
        ack_floor=_Position(state.floor_consumer, min(state.floor_stream, last_seq)),
        pending={seq: _Pending(*entry) for seq, entry in state.pending.items() if seq <= last_seq} or None,
        redelivered={seq: times for seq, times in state.redelivered.items() if seq <= last_seq} or None,
    )
    return msgspec.json.encode({"config": config, "state": progress})


def decode_consumer(name: str, body: bytes) -> tuple[ConsumerConfig, ConsumerState]:
    """Raises Corrupt. The configuration is not checked against any rules."""
    try:
        archived = msgspec.json.decode(body, type=_ArchivedConsumer)
        config = decode(bytes(archived.config), ConsumerConfig, strict=False)
    except (ApiError, *UNREADABLE_JSON) as error:
        raise Corrupt(f"consumer {name!r} cannot be read: {error}") from None
    if config.name not in ("", name) or config.durable_name not in ("", name):
        raise Corrupt(f"consumer {name!r} is configured as another one")
    delivered, floor = archived.state.delivered, archived.state.ack_floor
    entries = (archived.state.pending or {}) if config.ack_policy != "none" else {}
    redelivered = archived.state.redelivered or {}
    counts = chain(
        (delivered.consumer_seq, floor.consumer_seq),
        (entry.Sequence for entry in entries.values()),
        redelivered.values(),
    )
    if (
        max(counts) > LARGEST_COUNT
        or delivered.stream_seq > LARGEST_SEQ
        or floor.stream_seq > delivered.stream_seq
    ):
        raise Corrupt(f"consumer {name!r} has an impossible state")
    known = range(floor.stream_seq + 1, delivered.stream_seq + 1)
    try:
        pending = Pending(
            {seq: (entry.Sequence, entry.Timestamp) for seq, entry in entries.items() if seq in known}
        )
    except OverflowError:
        raise Corrupt(f"consumer {name!r} has impossible pending messages") from None
    return config, ConsumerState(
        delivered.consumer_seq,
        delivered.stream_seq,
        floor.consumer_seq,
        floor.stream_seq,
        pending,
        {seq: times for seq, times in redelivered.items() if seq in known},
    )
