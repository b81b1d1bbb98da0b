"""Which stream configurations are valid, and the defaults that nats-server fills in.

`check_stream_config` returns a new configuration with all defaults, or raises the ApiError that nats-
server answers with. Clients depend on which of several faults is reported, so the checks are in nats-server's
order. Rules about mirrors and sources are in source_rules.

`check_update` does the same for an existing stream, where some things can no longer be changed.

`pedantic` refuses what would otherwise be silently corrected.

A configuration may have thousands of subjects, so checks that compare them pause in between (slices.py).
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import msgspec

from headrace.config.durations import format_duration
from headrace.streams.config import Placement, StreamConfig
from headrace.streams.errors import ApiError, api_error
from headrace.streams.jetstream_limits import AccountResources
from headrace.streams.origins.source_rules import check_cycles, check_mirror, check_prefixes, check_sources
from headrace.streams.slices import STEP_SUBJECTS, Work
from headrace.streams.subject_tree import STEPS, SubjectTree
from headrace.subjects import grammar
from headrace.subjects.transform import Transform, TransformError, check_mapping

Value = TypeVar("Value")

MAX_NAME_LENGTH = 255
MAX_DESCRIPTION_LENGTH = 4 * 1024
MAX_METADATA_LENGTH = 128 * 1024
MAX_REPLICAS = 5
DEFAULT_DUPLICATE_WINDOW = 120_000_000_000
SHORTEST_AGE = 100_000_000
SECOND = 1_000_000_000
UNLIMITED_FIELDS = ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers")
RESERVED_NAMESPACES = ("$JS.>", "$JSC.>", "$NRG.>")
BAD_NAME_CHARACTERS = frozenset(" \t\r\n\f.*>\\/")


def invalid(description: str) -> ApiError:
    return api_error("stream_invalid_config", err=description)


def pedantic_error(description: str) -> ApiError:
    return api_error("pedantic", err=description)


def is_valid_asset_name(name: str) -> bool:
    """Whether a stream or consumer may have this name: it is a token and a file name."""
    return bool(name) and BAD_NAME_CHARACTERS.isdisjoint(name)


def check_stream_config(
    config: StreamConfig, resources: AccountResources, *, pedantic: bool = False
) -> Work[StreamConfig]:
    """The configuration with its defaults. Raises ApiError."""
    check_texts(config)
    config = copy_of(config)
    check_replicas(config)
    set_limits(config, pedantic)
    check_age_and_duplicates(config, resources, pedantic)
    check_features(config, pedantic)
    neighbours = resources.configs()
    if config.mirror:
        yield from check_mirror(config, neighbours, pedantic)
    yield from check_sources(config, neighbours)
    yield from check_prefixes(config, neighbours)
    yield from check_cycles(config, neighbours)
    yield from check_subjects(config)
    check_bytes(config, resources)
    check_transform(config)
    yield from check_republish(config, pedantic)
    check_placement(config)
    return config


def copy_of(value: Value) -> Value:
    """A copy of a configuration and its mutable parts. `deepcopy` takes milliseconds for 9,500 subjects."""
    if isinstance(value, msgspec.Struct):
        same = copy.copy(value)
        for name in value.__struct_fields__:
            setattr(same, name, copy_of(getattr(value, name)))
        return same
    copied: Any = value
    if isinstance(value, list):
        copied = [item if isinstance(item, str) else copy_of(item) for item in value]
    elif isinstance(value, dict):
        copied = {key: copy_of(item) for key, item in value.items()}
    made: Value = copied
    return made


def check_texts(config: StreamConfig) -> None:
    if not is_valid_asset_name(config.name):
        raise invalid("stream name is required and can not contain '.', '*', '>', '\\', '/'")
    if len(config.name.encode()) > MAX_NAME_LENGTH:
        raise invalid(f"stream name is too long, maximum allowed is {MAX_NAME_LENGTH}")
    if len(config.description.encode()) > MAX_DESCRIPTION_LENGTH:
        raise invalid(f"stream description is too long, maximum allowed is {MAX_DESCRIPTION_LENGTH}")
    if metadata_length(config.metadata) > MAX_METADATA_LENGTH:
        raise invalid(f"stream metadata exceeds maximum size of {MAX_METADATA_LENGTH} bytes")


def metadata_length(metadata: dict[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items())


def check_replicas(config: StreamConfig) -> None:
    config.num_replicas = config.num_replicas or 1
    if config.num_replicas > MAX_REPLICAS:
        raise invalid(f"maximum replicas is {MAX_REPLICAS}")
    if config.num_replicas < 0:
        raise api_error("replicas_count_cannot_be_negative")


def set_limits(config: StreamConfig, pedantic: bool) -> None:
    """Zero and negative limits mean no limit, which is written as -1."""
    for name in UNLIMITED_FIELDS:
        limit = getattr(config, name)
        if limit < -1 and pedantic:
            raise pedantic_error(f"{name} must be set to -1")
        if limit <= 0:
            setattr(config, name, -1)


def check_age_and_duplicates(config: StreamConfig, resources: AccountResources, pedantic: bool) -> None:
    if config.max_age < 0:
        raise invalid("max age can not be negative")
    if 0 < config.max_age < SHORTEST_AGE:
        raise invalid("max age needs to be >= 100ms")
    highest = resources.server.max_duplicate_window
    if config.duplicate_window == 0 and not config.mirror and not config.sources:
        window = DEFAULT_DUPLICATE_WINDOW
        if 0 < highest < window:
            if pedantic:
                raise pedantic_error("duplicate window limits are higher than current limits")
            window = highest
        if 0 < config.max_age < window:
            if pedantic:
                raise pedantic_error("duplicate window cannot be bigger than max age")
            window = config.max_age
        config.duplicate_window = window
    if config.duplicate_window < 0:
        raise invalid("duplicates window can not be negative")
    if config.max_age and config.duplicate_window > config.max_age:
        raise invalid("duplicates window can not be larger then max age")
    if 0 < highest < config.duplicate_window:
        raise invalid(
            f"duplicates window can not be larger then server limit of {format_duration(highest / SECOND)}"
        )
    if 0 < config.duplicate_window < SHORTEST_AGE:
        raise invalid("duplicates window needs to be >= 100ms")


def check_features(config: StreamConfig, pedantic: bool) -> None:
    """Options that exclude, or need, each other."""
    if config.deny_purge and config.allow_rollup_hdrs:
        raise invalid("roll-ups require the purge permission")
    if config.allow_msg_counter:
        check_counter(config)
    check_discard_per_subject(config)
    check_delete_markers(config, pedantic)
    if config.allow_msg_schedules:
        if config.discard == "new":
            raise invalid("message scheduling cannot use discard new")
        need_rollup(config, pedantic, "message scheduling")
    if config.persist_mode == "async":
        if config.storage != "file":
            raise invalid("async persist mode is only supported on file storage")
        if config.num_replicas > 1:
            raise invalid("async persist mode is not supported on replicated streams")
        if config.allow_atomic:
            raise invalid("async persist mode is not supported with atomic batch publish")


def check_counter(config: StreamConfig) -> None:
    if config.discard == "new":
        raise invalid("counter stream cannot use discard new")
    if config.allow_msg_ttl:
        raise invalid("counter stream cannot use message TTLs")
    if config.allow_msg_schedules:
        raise invalid("counter stream cannot use message schedules")
    if config.retention != "limits":
        raise invalid("counter stream can only use limits retention")


def check_discard_per_subject(config: StreamConfig) -> None:
    if config.discard_new_per_subject:
        if config.discard != "new":
            raise invalid("discard new per subject requires discard new policy to be set")
        if config.max_msgs_per_subject <= 0:
            raise invalid("discard new per subject requires max msgs per subject > 0")


def check_delete_markers(config: StreamConfig, pedantic: bool) -> None:
    if config.subject_delete_marker_ttl < 0:
        raise invalid("subject delete marker TTL must not be negative")
    if config.subject_delete_marker_ttl == 0:
        return
    if config.subject_delete_marker_ttl < SECOND:
        raise invalid("subject delete marker TTL must be at least 1 second")
    if not config.allow_msg_ttl:
        if pedantic:
            raise invalid("subject delete marker cannot be set if message TTLs are disabled")
        config.allow_msg_ttl = True
    need_rollup(config, pedantic, "subject delete marker")


def need_rollup(config: StreamConfig, pedantic: bool, feature: str) -> None:
    if not config.allow_rollup_hdrs:
        if pedantic:
            raise invalid(f"{feature} cannot be set if roll-ups are disabled")
        config.allow_rollup_hdrs, config.deny_purge = True, False


def check_subjects(config: StreamConfig) -> Work[None]:
    if not config.subjects:
        if not config.mirror and not config.sources:
            config.subjects = [config.name]
        return
    tree = SubjectTree(steps=STEPS)
    yield from tree.add_all(config.subjects)
    seen: set[str] = set()
    for index, subject in enumerate(config.subjects):
        if index % STEP_SUBJECTS == 0:
            yield
        if not grammar.is_valid_subject(subject):
            raise invalid("invalid subject")
        if subject in seen:
            raise invalid("duplicate subjects detected")
        if subject == grammar.FULL_WILDCARD:
            if not config.no_ack:
                raise invalid("capturing all subjects requires no-ack to be true")
            if config.num_replicas != 1:
                raise invalid("capturing all subjects requires replicas of 1")
        if not config.no_ack:
            check_namespaces(subject)
        if tree.overlaps(subject, but=str(index)):  # a later one; an earlier one would have been found
            other = next(each for each in config.subjects[index + 1 :] if grammar.overlap(each, subject))
            raise invalid(f'subject "{subject}" overlaps with "{other}"')
        seen.add(subject)


def check_namespaces(subject: str) -> None:
    """Acknowledging what the server itself publishes would never end."""
    for namespace in RESERVED_NAMESPACES:
        if grammar.overlap(subject, namespace) and not grammar.is_subset(subject, "$JS.EVENT.>"):
            raise invalid("subjects that overlap with jetstream api require no-ack to be true")
    if grammar.overlap(subject, "$SYS.>") and not grammar.is_subset(subject, "$SYS.ACCOUNT.>"):
        raise invalid("subjects that overlap with system api require no-ack to be true")


def check_bytes(config: StreamConfig, resources: AccountResources) -> None:
    limits = resources.limits
    highest = (
        limits.memory_max_stream_bytes if config.storage == "memory" else limits.storage_max_stream_bytes
    )
    if limits.max_bytes_required and config.max_bytes <= 0:
        raise api_error("stream_max_bytes_required")
    if 0 < highest < config.max_bytes:
        raise api_error("stream_max_stream_bytes_exceeded")


def check_transform(config: StreamConfig) -> None:
    transform = config.subject_transform
    if not transform:
        return
    if transform.src and not grammar.is_valid_subject(transform.src):
        raise api_error("stream_transform_invalid_source", err=f"invalid subject {transform.src}")
    try:
        check_mapping(transform.src, transform.dest)
    except TransformError as error:
        raise api_error("stream_transform_invalid_destination", err=error) from None


def check_republish(config: StreamConfig, pedantic: bool) -> Work[None]:
    republish, transform = config.republish, config.subject_transform
    if not republish:
        return
    everything = grammar.FULL_WILDCARD
    if not republish.src:
        if pedantic:
            raise pedantic_error("republish source can not be empty")
        republish.src = everything
    if republish.src == republish.dest == everything and transform and config.subjects == [transform.src]:
        if pedantic:
            raise pedantic_error("implicit republish based on subject transform")
        republish.src = republish.dest = transform.dest
    for index, subject in enumerate(config.subjects):
        if index % STEP_SUBJECTS == 0:
            yield
        if grammar.overlap(republish.dest, subject):
            raise invalid("stream configuration for republish destination forms a cycle")
    try:
        Transform(republish.src, republish.dest)
    except TransformError:
        raise invalid(
            f"stream configuration for republish with transform from '{republish.src}' "
            f"to '{republish.dest}' not valid"
        ) from None


def check_placement(config: StreamConfig) -> None:
    if config.placement == Placement():
        config.placement = None
    if config.placement and config.placement.preferred:
        raise invalid("preferred server not permitted in placement")


def check_update(
    old: StreamConfig, new: StreamConfig, resources: AccountResources, *, pedantic: bool = False
) -> Work[StreamConfig]:
    """The configuration that the stream gets. Raises ApiError."""
    config = yield from check_stream_config(new, resources, pedantic=pedantic)
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
    if config.mirror and config.mirror != old.mirror:  # without one, it becomes an ordinary stream
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
    resources.check_update(old, config)
    return config


def check_single_server(config: StreamConfig) -> None:
    if config.num_replicas > 1:
        raise api_error("stream_replicas_not_supported")


def check_overlap(config: StreamConfig, resources: AccountResources) -> Work[None]:
    """Raises ApiError if another stream has some of the same subjects."""
    for index, subject in enumerate(config.subjects):
        if index % STEP_SUBJECTS == 0:
            yield
        if resources.subjects.overlaps(subject, but=config.name):
            raise api_error("stream_subject_overlap")
