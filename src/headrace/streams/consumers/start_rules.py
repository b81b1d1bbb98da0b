"""Which start options go with which deliver policy."""

from __future__ import annotations

from headrace.streams.config import ConsumerConfig
from headrace.streams.errors import ApiError, api_error

# the policy, how errors call it, whether it takes a start sequence and a start time
POLICIES = {
    "all": ("all", False, False),
    "last": ("last", False, False),
    "last_per_subject": ("last per subject", False, False),
    "new": ("new", False, False),
    "by_start_sequence": ("by start sequence", True, False),
    "by_start_time": ("by start time", False, True),
}


def check_start(config: ConsumerConfig) -> None:
    """Raise the ApiError that nats-server answers with if the deliver policy and its start do not fit."""
    policy = config.deliver_policy
    words, takes_sequence, takes_time = POLICIES[policy]
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
