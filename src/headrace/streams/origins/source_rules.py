"""Rules about streams that copy other streams: mirrors and sources."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.streams.config import StreamConfig, StreamSource, SubjectTransform
from headrace.streams.errors import ApiError, api_error
from headrace.streams.slices import STEP_SUBJECTS, Work
from headrace.streams.subject_tree import STEPS, FilterTree, SubjectTree
from headrace.subjects import grammar
from headrace.subjects.transform import TransformError, check_mapping

API_PREFIX = "$JS.API"
BAD_NAME_CHARACTERS = frozenset(" \t\r\n\f.*>\\/")

Neighbours = Mapping[str, StreamConfig]


def check_mirror(config: StreamConfig, neighbours: Neighbours, pedantic: bool) -> Work[None]:
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
    yield from tree.add_all(transform.src for transform in mirror.subject_transforms)
    for place, transform in enumerate(mirror.subject_transforms):
        if place % STEP_SUBJECTS == 0:
            yield
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


def check_sources(config: StreamConfig, neighbours: Neighbours) -> Work[None]:
    if config.sources and config.allow_msg_schedules:
        raise api_error("source_with_msg_schedules")
    indexes: set[str] = set()
    consumers: set[tuple[str, str, str]] = set()
    for place, source in enumerate(config.sources):
        if place % STEP_SUBJECTS == 0:
            yield
        if not _is_name(source.name):
            raise api_error("source_invalid_stream_name")
        if (index := index_name(source)) in indexes:
            raise api_error("source_duplicate_detected")
        indexes.add(index)
        yield from check_source_filters(source)
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


def check_source_filters(source: StreamSource) -> Work[None]:
    if source.filter_subject and source.subject_transforms:
        raise api_error("source_multiple_filters_not_allowed")
    tree = FilterTree(steps=STEPS)
    for place, transform in enumerate(source.subject_transforms):
        if place % STEP_SUBJECTS == 0:
            yield
        check_source_transform(transform, "source")
        tree.add(transform.src, str(place))
    for place, transform in enumerate(source.subject_transforms):
        if place % STEP_SUBJECTS == 0:
            yield
        if tree.covers(transform.src, but=str(place)):
            raise api_error("source_overlapping_subject_filters")


def check_source_transform(transform: SubjectTransform, kind: str) -> None:
    if transform.src and not grammar.is_valid_subject(transform.src):
        raise api_error(f"{kind}_invalid_subject_filter", err=f"invalid subject {transform.src}")
    try:
        check_mapping(transform.src, transform.dest)
    except TransformError as error:
        raise api_error(f"{kind}_invalid_transform_destination", err=error) from None


def check_prefixes(config: StreamConfig, neighbours: Neighbours) -> Work[None]:
    """Deliveries and requests of external streams may not match streams or the API here."""
    origins = [config.mirror] if config.mirror else []
    origins += config.sources
    pace = Pace()
    names = dict.fromkeys(origin.name for origin in origins if origin.external is None)
    subjects = [
        subject
        for name in names
        if name in neighbours
        for subject in neighbours[name].subjects
        if subject.endswith(grammar.FULL_WILDCARD)  # others match nothing that is longer
    ]
    for prefix in (origin.external.deliver for origin in origins if origin.external):
        if not prefix:
            continue
        if not grammar.is_valid_publish_subject(prefix):
            raise api_error("stream_invalid_external_delivery_subj", prefix=prefix)
        for subject in subjects:
            if pace.is_time_to_pause():
                yield
            if grammar.overlap(subject, f"{prefix}.{subject}"):
                raise api_error("stream_external_del_prefix_overlaps", prefix=prefix, subject=subject)
    for prefix in (origin.external.api for origin in origins if origin.external):
        if not prefix:
            continue
        if pace.is_time_to_pause():
            yield
        if not grammar.is_valid_publish_subject(prefix):
            raise _invalid(f'stream external api prefix "{prefix}" must be a valid subject without wildcards')
        if grammar.overlap(prefix, API_PREFIX):
            raise api_error("stream_external_api_overlap", prefix=prefix, subject=API_PREFIX)


def check_cycles(config: StreamConfig, neighbours: Neighbours) -> Work[None]:
    """Streams may not copy themselves, directly or indirectly.

    The order of visits is nats-server's, because it decides what is found: one level of origins after
    another, and a stream as often as paths lead to it. There can be 2^n of these, so only the first and the
    last visit in a level count: the first marks it as visited, and the last has seen most of the others.
    """
    level = [config]
    visited: set[str] = set()
    pace = Pace()
    while level:
        origins: list[StreamConfig] = []
        for visiting in level:
            visited.add(visiting.name)
            for source in visiting.sources:
                if pace.is_time_to_pause():
                    yield
                if source.external:
                    continue
                if source.name not in visited:
                    origins += _found(source.name, neighbours)
                elif not source.filter_subject or (
                    yield from _has_overlap(visiting, source.filter_subject, pace)
                ):
                    raise _invalid("detected cycle")
            mirror = visiting.mirror
            if mirror and mirror.external is None:
                if mirror.name in visited:
                    raise _invalid("detected cycle")
                origins += _found(mirror.name, neighbours)
        level = _firsts_and_lasts(origins)


def _found(name: str, neighbours: Neighbours) -> list[StreamConfig]:
    return [neighbours[name]] if name in neighbours else []


def _has_overlap(stream: StreamConfig, filter_subject: str, pace: Pace) -> Work[bool]:
    """Whether a subject of the stream overlaps with the filter."""
    for subject in stream.subjects:
        if pace.is_time_to_pause():
            yield
        if grammar.overlap(subject, filter_subject):
            return True
    return False


def _firsts_and_lasts(streams: list[StreamConfig]) -> list[StreamConfig]:
    """The same order, with at most two of each."""
    first = {stream.name: place for place, stream in reversed(list(enumerate(streams)))}
    last = {stream.name: place for place, stream in enumerate(streams)}
    return [streams[place] for place in sorted({*first.values(), *last.values()})]


class Pace:
    """Counts comparisons, says when to pause, and refuses what would need too many."""

    def __init__(self) -> None:
        self._count = 0

    def is_time_to_pause(self) -> bool:
        self._count += 1
        if self._count > STEPS:
            raise _invalid("too many sources")
        return self._count % STEP_SUBJECTS == 0


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
