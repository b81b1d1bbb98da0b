"""Consumer info: what the API returns about a consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.streams.api_levels import with_server_metadata
from headrace.streams.config import ConsumerConfig, Wire
from headrace.streams.consumers.pause import is_paused, pause_until
from headrace.streams.consumers.pull import PullDelivery
from headrace.streams.formats import LATEST, format_time
from headrace.streams.wire_types import Duration, Int, Time, Uint64, always

if TYPE_CHECKING:
    from headrace.streams.consumers.consumer import Consumer


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


def with_versions(info: ConsumerInfo) -> ConsumerInfo:
    """For responses: with the server's version and API level in the metadata."""
    assert info.config is not None
    info.config = msgspec.structs.replace(info.config, metadata=with_server_metadata(info.config.metadata))
    return info


def describe(consumer: Consumer) -> ConsumerInfo:
    core, ledger, delivery = consumer.core, consumer.core.ledger, consumer.delivery
    now = core.time_of_day()
    floor_consumer, floor_stream = ledger.floor
    info = ConsumerInfo(
        stream_name=core.stream,
        name=core.name,
        created=format_time(consumer.created),
        config=core.config,
        delivered=_sequences(ledger.delivered_consumer, ledger.delivered_stream, ledger.last_delivery),
        ack_floor=_sequences(floor_consumer, floor_stream, ledger.last_ack),
        num_ack_pending=len(ledger.pending),
        num_redelivered=core.num_redelivered,
        num_pending=consumer.upcoming.num_pending,
        ts=format_time(now),
    )
    if is_paused(core):
        info.paused = True
        info.pause_remaining = min(pause_until(core) - now, LATEST)
    if isinstance(delivery, PullDelivery):
        info.num_waiting = delivery.num_waiting
        if core.config.priority_groups:
            group, pins = core.config.priority_groups[0], delivery.pins
            state = PriorityGroupState(
                group=group, pinned_client_id=pins.id, pinned_ts=format_time(pins.since)
            )
            info.priority_groups = [state]
    else:
        info.push_bound = delivery.is_active
    return info


def _sequences(consumer_seq: int, stream_seq: int, last: int) -> SequenceInfo:
    return SequenceInfo(
        consumer_seq=consumer_seq, stream_seq=stream_seq, last_active=format_time(last) if last else None
    )
