"""Which consumer configurations are valid, at creation and at update.

Defaults come first, then checks, in nats-server's order. The order matters: a configuration with two mistakes
is answered with the first error. Nothing here looks at the state of a stream; rules about other consumers
(work queues) are passed their configurations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from headrace.config.durations import format_duration
from headrace.streams.config import ConsumerConfig, StreamConfig
from headrace.streams.errors import ApiError, api_error
from headrace.streams.formats import parse_time
from headrace.streams.slices import STEP_SUBJECTS, Work
from headrace.streams.subject_tree import STEPS, FilterTree, SubjectTree
from headrace.subjects.grammar import has_wildcard, is_subset, is_valid_subject

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
DEFAULT_ACK_WAIT = 30 * SECOND
DEFAULT_MAX_ACK_PENDING = 1000
DEFAULT_MAX_WAITING = 512
DEFAULT_PINNED_SECONDS = 120
SMALLEST_HEARTBEAT = 100 * MILLISECOND
FLOW_CONTROL_ACK_HEARTBEAT = SECOND
MAX_DESCRIPTION_BYTES = 4 * 1024
MAX_METADATA_BYTES = 128 * 1024
MAX_NAME_BYTES = 255
GROUP_NAME = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")
FORBIDDEN_IN_NAMES = frozenset(" \t\r\n\f.*>\\/")
NOT_NEGATIVE = (
    # the field, and the error for a pedantic request
    ("max_batch", "max_batch must not be negative"),
    ("max_expires", "max_expires must not be negative"),
    ("max_bytes", "max_bytes must not be negative"),
    ("idle_heartbeat", "idle_heartbeat must not be negative"),
    ("inactive_threshold", "inactive_threshold must not be negative"),
    ("priority_timeout", "priority_timeout must not be negative"),
)
# the policy, its name in errors, whether it needs a start sequence and a start time
START_OPTIONS = {
    "all": ("all", False, False),
    "last": ("last", False, False),
    "last_per_subject": ("last per subject", False, False),
    "new": ("new", False, False),
    "by_start_sequence": ("by start sequence", True, False),
    "by_start_time": ("by start time", False, True),
}
# in nats-server's order; each is compared before those below it
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


class Limits(NamedTuple):
    """The limits of the server and the account; 0 or less means no limit."""

    max_ack_pending: int = 0
    max_request_batch: int = 0
    account_max_ack_pending: int = 0
    max_consumers: int = 0


def is_valid_name(name: str) -> bool:
    return bool(name) and FORBIDDEN_IN_NAMES.isdisjoint(name)


def filters_of(config: ConsumerConfig) -> list[str]:
    """All filter subjects; none means every message."""
    return (
        [*config.filter_subjects, config.filter_subject] if config.filter_subject else config.filter_subjects
    )


def set_defaults(config: ConsumerConfig, stream: StreamConfig, limits: Limits, pedantic: bool) -> None:
    """Fill in defaults. A pedantic request gets an error where a value would be changed."""
    _set_floors(config, pedantic)
    if not config.deliver_subject and config.max_waiting == 0:
        config.max_waiting = DEFAULT_MAX_WAITING
    if config.ack_wait == 0 and config.ack_policy in ("explicit", "all"):
        config.ack_wait = DEFAULT_ACK_WAIT
    if config.backoff:
        if pedantic and config.ack_wait != config.backoff[0]:
            raise api_error("pedantic", err="first backoff value has to equal batch AckWait")
        config.ack_wait = config.backoff[0]
    _set_stream_limits(config, stream, pedantic)
    if config.max_ack_pending == 0 and config.ack_policy != "none":
        asked = (DEFAULT_MAX_ACK_PENDING, limits.max_ack_pending, limits.account_max_ack_pending)
        config.max_ack_pending = min(value for value in asked if value > 0)
    if not config.deliver_subject and config.max_batch == 0 and limits.max_request_batch > 0:
        if pedantic:
            raise api_error("pedantic", err="max_request_batch must be set if it's JetStream limits are set")
        config.max_batch = limits.max_request_batch
    if config.priority_policy == "pinned_client" and config.priority_timeout == 0:
        config.priority_timeout = DEFAULT_PINNED_SECONDS * SECOND
    if config.ack_policy == "flow_control" and not pedantic:
        config.flow_control = True
        config.idle_heartbeat = FLOW_CONTROL_ACK_HEARTBEAT


def _set_floors(config: ConsumerConfig, pedantic: bool) -> None:
    if config.max_deliver == 0 or config.max_deliver < -1:
        if pedantic and config.max_deliver < -1:
            raise api_error("pedantic", err="max_deliver must be set to -1")
        config.max_deliver = -1
    if config.max_waiting < 0:
        if pedantic:
            raise api_error("pedantic", err="max_waiting must not be negative")
        config.max_waiting = 0
    if config.max_ack_pending < -1:
        if pedantic:
            raise api_error("pedantic", err="max_ack_pending must be set to -1")
        config.max_ack_pending = -1
    for field, complaint in NOT_NEGATIVE:
        if getattr(config, field) < 0:
            if pedantic:
                raise api_error("pedantic", err=complaint)
            setattr(config, field, 0)


def _set_stream_limits(config: ConsumerConfig, stream: StreamConfig, pedantic: bool) -> None:
    limits = stream.consumer_limits
    if config.max_ack_pending == 0:
        if pedantic and limits.max_ack_pending > 0:
            raise api_error("pedantic", err="max_ack_pending must be set if it's configured in stream limits")
        config.max_ack_pending = limits.max_ack_pending
    if config.inactive_threshold == 0:
        if pedantic and limits.inactive_threshold > 0:
            raise api_error(
                "pedantic", err="inactive_threshold must be set if it's configured in stream limits"
            )
        config.inactive_threshold = limits.inactive_threshold


def check_config(config: ConsumerConfig, stream: StreamConfig, limits: Limits) -> Work[None]:
    """Raise the ApiError of the first rule that the configuration breaks."""
    _check_names(config)
    _check_replicas(config, stream)
    if any(delay < 0 for delay in config.backoff):
        raise api_error("consumer_back_off_negative")
    if config.ack_wait < 0:
        raise api_error("consumer_ack_wait_negative")
    if config.ack_policy == "flow_control":
        _check_flow_control_acks(config)
    if config.backoff and config.max_deliver != -1 and len(config.backoff) > config.max_deliver:
        raise api_error("consumer_max_deliver_backoff")
    if len(config.description.encode()) > MAX_DESCRIPTION_BYTES:
        raise api_error("consumer_description_too_long", max=MAX_DESCRIPTION_BYTES)
    if config.deliver_subject:
        yield from _check_push(config, stream)
    else:
        _check_pull(config, stream, limits)
    _check_limits(config, stream, limits)
    if config.direct and not config.deliver_subject:
        raise api_error("consumer_direct_requires_push")
    if config.direct and config.durable_name:
        raise api_error("consumer_direct_requires_ephemeral")
    yield from _check_filters(config)
    check_start(config)
    _check_sampling(config)
    if config.flow_control and config.idle_heartbeat == 0:
        raise api_error("consumer_with_flow_control_needs_heartbeats")
    if config.durable_name and config.name and config.name != config.durable_name:
        raise api_error("consumer_create_durable_and_name_mismatch")
    if (
        sum(len(key.encode()) + len(value.encode()) for key, value in config.metadata.items())
        > MAX_METADATA_BYTES
    ):
        raise api_error("consumer_metadata_length", limit=f"{MAX_METADATA_BYTES // 1024}KB")
    _check_priority(config)
    if stream.placement is not None and stream.placement.preferred:
        raise _invalid("preferred server not permitted in placement")


def _invalid(complaint: str) -> ApiError:
    return api_error("stream_invalid_config", err=complaint)


def _check_names(config: ConsumerConfig) -> None:
    if config.name and not is_valid_name(config.name):
        raise _invalid("consumer name can not contain '.', '*', '>', '\\', '/'")
    if config.durable_name and not is_valid_name(config.durable_name):
        raise _invalid("consumer durable name can not contain '.', '*', '>', '\\', '/'")


def _check_replicas(config: ConsumerConfig, stream: StreamConfig) -> None:
    if config.num_replicas > 0 and config.num_replicas > stream.num_replicas:
        raise api_error("consumer_replicas_exceeds_stream")
    if config.num_replicas < 0:
        raise api_error("replicas_count_cannot_be_negative")
    if stream.retention != "limits" and config.num_replicas not in (0, stream.num_replicas):
        raise api_error("consumer_replicas_should_match_stream")


def _check_flow_control_acks(config: ConsumerConfig) -> None:
    if not config.deliver_subject:
        raise api_error("consumer_ack_fc_requires_push")
    if not config.flow_control:
        raise api_error("consumer_ack_fc_requires_fc")
    if config.idle_heartbeat != FLOW_CONTROL_ACK_HEARTBEAT:
        raise _invalid("flow control ack policy heartbeat needs to be 1s")
    if config.max_ack_pending <= 0:
        raise api_error("consumer_ack_fc_requires_max_ack_pending")
    if config.ack_wait != 0 or config.backoff:
        raise api_error("consumer_ack_fc_requires_no_ack_wait")
    if config.max_deliver > 0:
        raise api_error("consumer_ack_fc_requires_no_max_deliver")


def _check_push(config: ConsumerConfig, stream: StreamConfig) -> Work[None]:
    if has_wildcard(config.deliver_subject):
        raise api_error("consumer_deliver_to_wildcards")
    if not is_valid_subject(config.deliver_subject):
        raise api_error("consumer_invalid_deliver_subject")
    for index, subject in enumerate(stream.subjects):
        if index % STEP_SUBJECTS == 0:
            yield
        if is_subset(config.deliver_subject, subject):
            raise api_error("consumer_deliver_cycle")
    if config.max_waiting != 0:
        raise api_error("consumer_push_max_waiting")
    if config.max_ack_pending > 0 and config.ack_policy == "none":
        raise api_error("consumer_max_pending_ack_policy_required")
    if 0 < config.idle_heartbeat < SMALLEST_HEARTBEAT:
        raise api_error("consumer_small_heartbeat")


def _check_pull(config: ConsumerConfig, stream: StreamConfig, limits: Limits) -> None:
    if config.ack_policy == "none" and stream.retention == "workqueue":
        raise api_error("consumer_pull_requires_ack")
    if config.rate_limit_bps > 0:
        raise api_error("consumer_pull_with_rate_limit")
    if config.idle_heartbeat > 0:
        raise api_error("consumer_hb_requires_push")
    if config.flow_control:
        raise api_error("consumer_fc_requires_push")
    if config.max_expires != 0 and config.max_expires < MILLISECOND:
        raise api_error("consumer_max_request_expires_too_small")
    if 0 < limits.max_request_batch < config.max_batch:
        raise api_error("consumer_max_request_batch_exceeded", limit=limits.max_request_batch)


def _check_limits(config: ConsumerConfig, stream: StreamConfig, limits: Limits) -> None:
    own = stream.consumer_limits
    for limit in (limits.max_ack_pending, limits.account_max_ack_pending, own.max_ack_pending):
        if 0 < limit < config.max_ack_pending:
            raise api_error("consumer_max_pending_ack_excess", limit=limit)
    if 0 < own.inactive_threshold < config.inactive_threshold:
        raise api_error(
            "consumer_inactive_threshold_excess", limit=format_duration(own.inactive_threshold / SECOND)
        )


def _check_filters(config: ConsumerConfig) -> Work[None]:
    if config.filter_subject and config.filter_subjects:
        raise api_error("consumer_duplicate_filter_subjects")
    if config.filter_subject and not is_valid_subject(config.filter_subject):
        raise _invalid("invalid subject")
    if "" in config.filter_subjects:
        raise api_error("consumer_empty_filter")
    filters = filters_of(config)
    tree = FilterTree(steps=STEPS)
    yield from tree.add_all(filters)
    for index, subject in enumerate(filters):
        if index % STEP_SUBJECTS == 0:
            yield
        if not is_valid_subject(subject):
            raise _invalid("invalid subject")
        if tree.covers(subject, but=str(index)):
            raise api_error("consumer_overlapping_subject_filters")


def _check_sampling(config: ConsumerConfig) -> None:
    if config.sample_freq and sampling_percent(config.sample_freq) is None:
        text = config.sample_freq.removesuffix("%")
        complaint = (
            "<nil>" if re.fullmatch(r"-\d+", text) else f'strconv.Atoi: parsing "{text}": invalid syntax'
        )
        raise api_error("consumer_invalid_sampling", err=complaint)


def sampling_percent(text: str) -> int | None:
    """The percentage of acknowledgements that are reported; None if it is not a number."""
    digits = text.removesuffix("%")
    return int(digits) if re.fullmatch(r"\+?\d{1,18}", digits, re.ASCII) else None


def _check_priority(config: ConsumerConfig) -> None:
    if config.priority_policy == "none":
        if config.priority_groups:
            raise api_error("consumer_priority_group_with_policy_none")
        if config.priority_timeout > 0:
            raise api_error("consumer_pinned_ttl_without_priority_policy_none")
        return
    if config.deliver_subject:
        raise api_error("consumer_push_with_priority_group")
    if not config.priority_groups:
        raise api_error("consumer_priority_policy_without_group")
    for group in config.priority_groups:
        if not group:
            raise api_error("consumer_empty_group_name")
        if not GROUP_NAME.fullmatch(group):
            raise api_error("consumer_invalid_group_name")


def check_start(config: ConsumerConfig) -> None:
    """Raise the ApiError that nats-server answers with if the deliver policy and its start do not fit."""
    policy = config.deliver_policy
    words, takes_sequence, takes_time = START_OPTIONS[policy]
    has_sequence, has_time = config.opt_start_seq > 0, config.opt_start_time is not None
    if takes_sequence and not has_sequence:
        raise _not_set(words, "start sequence")
    if takes_time and not has_time:
        raise _not_set(words, "start time")
    if has_sequence and not takes_sequence:
        raise _also_set(words, "start sequence" if takes_time else "sequence")
    if has_time and not takes_time:
        raise _also_set(words, "time")
    if policy == "last_per_subject" and not config.filter_subject and not config.filter_subjects:
        raise _not_set(words, "filter subject")


def _also_set(policy: str, start: str) -> ApiError:
    complaint = f"consumer delivery policy is deliver {policy}, but optional start {start} is also set"
    return api_error("consumer_invalid_policy", err=complaint)


def _not_set(policy: str, missing: str) -> ApiError:
    complaint = f"consumer delivery policy is deliver {policy}, but optional {missing} is not set"
    return api_error("consumer_invalid_policy", err=complaint)


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


def check_workqueue(
    config: ConsumerConfig, stream: StreamConfig, others: Iterable[ConsumerConfig]
) -> Work[None]:
    """In a work queue every message belongs to one consumer; `others` are the existing ones."""
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
    yield from check_partition(config, rivals)


def check_partition(config: ConsumerConfig, others: Iterable[ConsumerConfig]) -> Work[None]:
    """Filters of consumers of a work queue may not overlap."""
    wanted = filters_of(config)
    if not wanted:
        return
    tree = SubjectTree(steps=STEPS)
    yield from tree.add_all(wanted, "wanted")
    for other in others:
        taken = filters_of(other)
        for index, subject in enumerate(taken):
            if index % STEP_SUBJECTS == 0:
                yield
            if tree.overlaps(subject):
                raise api_error("consumer_wq_consumer_not_unique")
        if not taken:
            raise api_error("consumer_wq_consumer_not_unique")
