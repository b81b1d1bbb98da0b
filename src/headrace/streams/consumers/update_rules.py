"""What may change in a consumer that exists, and what a second consumer may not share with the first."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.streams.config import ConsumerConfig, StreamConfig
from headrace.streams.consumers.rules import filters_of
from headrace.streams.errors import ApiError, api_error
from headrace.streams.formats import parse_time
from headrace.subjects.grammar import overlap

# in nats-server's order; each is compared before the ones below
FIXED = (
    ("deliver_policy", "deliver policy can not be updated"),
    ("mem_storage", "storage type can not be updated"),
    ("direct", "direct can not be updated"),
    ("sourcing", "sourcing can not be updated"),
    ("opt_start_seq", "start sequence can not be updated"),
    ("opt_start_time", "start time can not be updated"),
    ("ack_policy", "ack policy can not be updated"),
    ("replay_policy", "replay policy can not be updated"),
    ("idle_heartbeat", "heart beats can not be updated"),
    ("flow_control", "flow control can not be updated"),
)


def check_update(old: ConsumerConfig, new: ConsumerConfig, deliver_subject_in_use: bool) -> None:
    """Raise the ApiError that nats-server answers with if the change is not allowed."""
    if old == new:
        return
    for field, complaint in FIXED:
        before, after = getattr(old, field), getattr(new, field)
        if field == "opt_start_time" and before and after:
            before, after = parse_time(before), parse_time(after)
        if before != after:
            raise _refused(complaint)
    if old.deliver_subject != new.deliver_subject:
        if not old.deliver_subject:
            raise _refused("can not update pull consumer to push based")
        if not new.deliver_subject:
            raise _refused("can not update push consumer to pull based")
        if deliver_subject_in_use:
            raise api_error("consumer_name_exist")
    if old.max_waiting != new.max_waiting:
        raise _refused("max waiting can not be updated")
    if new.backoff and new.max_deliver != -1 and len(new.backoff) > new.max_deliver:
        raise api_error("consumer_max_deliver_backoff")


def _refused(complaint: str) -> ApiError:
    return api_error("consumer_create", err=complaint)


def check_workqueue(config: ConsumerConfig, stream: StreamConfig, others: Iterable[ConsumerConfig]) -> None:
    """On a work queue every message belongs to one consumer; `others` are the ones that are there."""
    if stream.retention != "workqueue" or config.direct or config.sourcing:
        return
    if config.ack_policy not in ("explicit", "flow_control"):
        raise api_error("consumer_wq_requires_explicit_ack")
    if config.deliver_policy != "all":
        raise api_error("consumer_wq_consumer_not_deliver_all")
    rivals = list(others)
    if not rivals:
        return
    if not filters_of(config):
        raise api_error("consumer_wq_multiple_unfiltered")
    check_partition(config, rivals)


def check_partition(config: ConsumerConfig, others: Iterable[ConsumerConfig]) -> None:
    """No other consumer of a work queue may want a message that this one wants."""
    wanted = filters_of(config)
    if not wanted:
        return
    for other in others:
        taken = filters_of(other)
        if not taken or any(overlap(mine, theirs) for mine in wanted for theirs in taken):
            raise api_error("consumer_wq_consumer_not_unique")
