"""What an update may change of a stream, and what it may not."""

from __future__ import annotations

from headrace.streams.account import Account
from headrace.streams.config import StreamConfig
from headrace.streams.errors import api_error
from headrace.streams.stream_rules import check_discard_per_subject, check_stream_config, invalid


def check_update(
    old: StreamConfig, new: StreamConfig, account: Account, *, pedantic: bool = False
) -> StreamConfig:
    """The configuration that the stream gets. Raises ApiError."""
    config = check_stream_config(new, account, pedantic=pedantic)
    if config.name != old.name:
        raise invalid("stream configuration name must match original")
    check_single_server(config)
    if config.storage != old.storage:
        raise invalid("stream configuration update can not change storage type")
    if config.retention != old.retention and "workqueue" in (old.retention, config.retention):
        raise invalid("stream configuration update can not change retention policy to/from workqueue")
    if old.sealed and not config.sealed:
        raise invalid("stream configuration update can not unseal a sealed stream")
    if old.deny_delete and not config.deny_delete:
        raise invalid("stream configuration update can not cancel deny message deletes")
    if old.deny_purge and not config.deny_purge:
        raise invalid("stream configuration update can not cancel deny purge")
    if config.mirror and config.mirror != old.mirror:  # without one, it is promoted to a stream of its own
        raise api_error("stream_mirror_not_updatable")
    check_discard_per_subject(config)
    if old.allow_msg_ttl and not config.allow_msg_ttl:
        raise invalid("message TTL status can not be disabled")
    if config.allow_msg_counter != old.allow_msg_counter:
        raise invalid("stream configuration update can not change message counter setting")
    if old.allow_msg_schedules and not config.allow_msg_schedules:
        raise invalid("message schedules can not be disabled")
    if config.persist_mode != old.persist_mode:
        raise invalid("stream configuration update can not change persist mode")
    if config.sealed:
        config.max_age = 0
        config.discard = "new"
        config.deny_delete = config.deny_purge = True
        config.allow_rollup_hdrs = False
    account.check_update(old, config)
    return config


def check_single_server(config: StreamConfig) -> None:
    if config.num_replicas > 1:
        raise api_error("stream_replicas_not_supported")


def check_overlap(config: StreamConfig, account: Account) -> None:
    """Raises ApiError if another stream takes some of the same subjects."""
    if any(account.subjects.overlaps(subject, but=config.name) for subject in config.subjects):
        raise api_error("stream_subject_overlap")
