"""Rules about streams that copy other streams: mirrors and sources."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.streams.config import StreamConfig, StreamSource, SubjectTransform
from headrace.streams.errors import ApiError, api_error
from headrace.streams.subject_tree import STEPS, FilterTree, SubjectTree
from headrace.subjects import grammar
from headrace.subjects.transform import TransformError, check_mapping

API_PREFIX = "$JS.API"
BAD_NAME_CHARACTERS = frozenset(" \t\r\n\f.*>\\/")

Neighbours = Mapping[str, StreamConfig]


def check_mirror(config: StreamConfig, neighbours: Neighbours, pedantic: bool) -> None:
    mirror = config.mirror
    assert mirror
    for is_set, error in (
        (config.first_seq > 0, "mirror_with_first_seq"),
        (config.subjects, "mirror_with_subjects"),
        (config.sources, "mirror_with_sources"),
        (config.allow_msg_counter, "mirror_with_counters"),
        (config.allow_atomic, "mirror_with_atomic_publish"),
        (config.allow_batched, "mirror_with_batch_publish"),
        (config.allow_msg_schedules, "mirror_with_msg_schedules"),
        (not _has_valid_consumer(mirror), "mirror_durable_consumer_cfg_invalid"),
        (mirror.filter_subject and mirror.subject_transforms, "mirror_multiple_filters_not_allowed"),
    ):
        if is_set:
            raise api_error(error)
    if config.subject_delete_marker_ttl > 0:
        raise api_error("stream_invalid_config", err="subject delete markers forbidden on mirrors")
    tree = SubjectTree(steps=STEPS)
    for place, transform in enumerate(mirror.subject_transforms):
        tree.add(transform.src, str(place))
    for place, transform in enumerate(mirror.subject_transforms):
        check_source_transform(transform, "mirror")
        if tree.overlaps(transform.src, but=str(place)):
            raise api_error("mirror_overlapping_subject_filters")
    if mirror.external is None:
        check_origin(config, mirror, neighbours, pedantic)


def check_origin(config: StreamConfig, mirror: StreamSource, neighbours: Neighbours, pedantic: bool) -> None:
    """The origin need not exist; if it does, its messages must fit and its direct get is inherited."""
    if not _is_name(mirror.name):
        raise api_error("mirror_invalid_stream_name")
    origin = neighbours.get(mirror.name)
    if origin is None:
        return
    if 0 < config.max_msg_size < origin.max_msg_size:
        raise api_error("mirror_max_message_size_too_big")
    if pedantic and config.mirror_direct != origin.allow_direct:
        raise api_error("pedantic", err="origin stream has direct get set, mirror has it disabled")
    config.mirror_direct = origin.allow_direct


def check_sources(config: StreamConfig, neighbours: Neighbours) -> None:
    if config.sources and config.allow_msg_schedules:
        raise api_error("source_with_msg_schedules")
    indexes: set[str] = set()
    consumers: set[tuple[str, str, str]] = set()
    for source in config.sources:
        if not _is_name(source.name):
            raise api_error("source_invalid_stream_name")
        if (index := index_name(source)) in indexes:
            raise api_error("source_duplicate_detected")
        indexes.add(index)
        check_source_filters(source)
        if source.consumer:
            if not _has_valid_consumer(source):
                raise api_error("source_durable_consumer_cfg_invalid")
            prefix = source.external.api if source.external else ""
            key = (source.name, prefix, source.consumer.name)
            if key in consumers:
                raise api_error("source_durable_consumer_duplicate_detected")
            consumers.add(key)
        origin = None if source.external else neighbours.get(source.name)
        if origin and 0 < config.max_msg_size < origin.max_msg_size:
            raise api_error("source_max_message_size_too_big")


def check_source_filters(source: StreamSource) -> None:
    if source.filter_subject and source.subject_transforms:
        raise api_error("source_multiple_filters_not_allowed")
    tree = FilterTree(steps=STEPS)
    for place, transform in enumerate(source.subject_transforms):
        check_source_transform(transform, "source")
        tree.add(transform.src, str(place))
    for place, transform in enumerate(source.subject_transforms):
        if tree.covers(transform.src, but=str(place)):
            raise api_error("source_overlapping_subject_filters")


def check_source_transform(transform: SubjectTransform, kind: str) -> None:
    if transform.src and not grammar.is_valid_subject(transform.src):
        raise api_error(f"{kind}_invalid_subject_filter", err=f"invalid subject {transform.src}")
    try:
        check_mapping(transform.src, transform.dest)
    except TransformError as error:
        raise api_error(f"{kind}_invalid_transform_destination", err=error) from None


def check_prefixes(config: StreamConfig, neighbours: Neighbours) -> None:
    """Deliveries and requests of external streams may not match streams or the API here."""
    origins = [config.mirror] if config.mirror else []
    origins += config.sources
    subjects = [
        subject
        for origin in origins
        if origin.external is None and origin.name in neighbours
        for subject in neighbours[origin.name].subjects
    ]
    for prefix in (origin.external.deliver for origin in origins if origin.external):
        if not prefix:
            continue
        if not grammar.is_valid_publish_subject(prefix):
            raise api_error("stream_invalid_external_delivery_subj", prefix=prefix)
        for subject in subjects:
            if grammar.overlap(subject, f"{prefix}.{subject}"):
                raise api_error("stream_external_del_prefix_overlaps", prefix=prefix, subject=subject)
    for prefix in (origin.external.api for origin in origins if origin.external):
        if not prefix:
            continue
        if not grammar.is_valid_publish_subject(prefix):
            raise _invalid(f'stream external api prefix "{prefix}" must be a valid subject without wildcards')
        if grammar.overlap(prefix, API_PREFIX):
            raise api_error("stream_external_api_overlap", prefix=prefix, subject=API_PREFIX)


def check_cycles(config: StreamConfig, neighbours: Neighbours) -> None:
    """Streams may not copy themselves, directly or indirectly."""
    to_visit = [config]
    visited: set[str] = set()
    while to_visit:
        visiting = to_visit.pop(0)
        visited.add(visiting.name)
        for source in visiting.sources:
            if source.external:
                continue
            if source.name in visited:
                filter_subject = source.filter_subject
                if not filter_subject or any(
                    grammar.overlap(subject, filter_subject) for subject in visiting.subjects
                ):
                    raise _invalid("detected cycle")
            elif source.name in neighbours:
                to_visit.append(neighbours[source.name])
        mirror = visiting.mirror
        if mirror and mirror.external is None:
            if mirror.name in visited:
                raise _invalid("detected cycle")
            if mirror.name in neighbours:
                to_visit.append(neighbours[mirror.name])


def check_filters_at_create(config: StreamConfig) -> None:
    """Filters are checked last, and their errors have no number of their own."""
    for kind, origins in (("mirror", [config.mirror] if config.mirror else []), ("source", config.sources)):
        for origin in origins:
            if origin.subject_transforms or not origin.filter_subject:
                continue
            if not grammar.is_valid_subject(origin.filter_subject):
                separator = " " if kind == "mirror" else ": "
                text = f"subject filter '{origin.filter_subject}' for the {kind}{separator}invalid subject"
                raise api_error("stream_create", err=text)


def index_name(source: StreamSource) -> str:
    """Identifies a source of a stream: its origin, filters and transforms."""
    name = source.name
    if source.external:
        name += ":" + source.external.api
    if source.consumer:
        name += ":C=" + source.consumer.name
    if not source.subject_transforms:
        return f"{name} {source.filter_subject or '>'} >"
    sources = "\f".join(transform.src or ">" for transform in source.subject_transforms)
    destinations = "\f".join(transform.dest or ">" for transform in source.subject_transforms)
    return f"{name} {sources} {destinations}"


def _has_valid_consumer(source: StreamSource) -> bool:
    consumer = source.consumer
    if consumer is None:
        return True
    return (
        _is_name(consumer.name)
        and grammar.is_valid_publish_subject(consumer.deliver_subject)
        and not source.opt_start_seq
        and source.opt_start_time is None
        and not source.filter_subject
    )


def _is_name(name: str) -> bool:
    return bool(name) and BAD_NAME_CHARACTERS.isdisjoint(name)


def _invalid(description: str) -> ApiError:
    return api_error("stream_invalid_config", err=description)
