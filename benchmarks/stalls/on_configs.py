"""Configurations with as many subjects, filters or sources as a request may have."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.stalls.asker import Asker, consume, create, update
from benchmarks.stalls.operations import Ports, operation

MOST = 9500
SUBJECTS = [f"S.{number}.*" for number in range(MOST)]
SOURCES = [{"name": f"O{number}"} for number in range(1500)]
STREAMS = 5
"""With MOST subjects each."""


@operation("create-subjects")
def create_subjects(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    yield
    create(asker, "S", subjects=SUBJECTS)


@operation("update-subjects")
def update_subjects(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    create(asker, "S", subjects=SUBJECTS)
    yield
    update(asker, "S", subjects=[f"T.{number}.*" for number in range(MOST)])


@operation("delete-subjects")
def delete_subjects(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    create(asker, "S", subjects=SUBJECTS)
    yield
    asker.ask("STREAM.DELETE.S")


@operation("create-sources")
def create_sources(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    yield
    create(asker, "S", sources=SOURCES)


@operation("names-subjects")
def names_subjects(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    for stream in range(STREAMS):
        create(asker, f"S{stream}", subjects=[f"S{stream}.{number}.*" for number in range(MOST)])
    yield
    asker.ask("STREAM.NAMES", {"subject": "*.none.none"})
    asker.ask("STREAM.LIST", {"subject": "*.none.none"})


@operation("create-filters")
def consumer_filters(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    create(asker, "S")
    yield
    consume(asker, "S", "one", filter_subjects=SUBJECTS)


@operation("update-filters")
def consumer_other_filters(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    create(asker, "S")
    consume(asker, "S", "one", filter_subjects=SUBJECTS)
    yield
    config = {"durable_name": "one", "ack_policy": "explicit", "filter_subjects": SUBJECTS[::-2]}
    asker.ask("CONSUMER.CREATE.S.one", {"stream_name": "S", "config": config, "action": "update"})
    asker.ask("CONSUMER.INFO.S.one")
    asker.ask("CONSUMER.DELETE.S.one")


@operation("queue-filters")
def queue_filters(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
    """Consumers of a work queue may not overlap, so each is compared with the others."""
    create(asker, "S", retention="workqueue")
    consume(asker, "S", "one", filter_subjects=SUBJECTS)
    yield
    consume(asker, "S", "two", filter_subjects=[f"S.x{number}.*" for number in range(MOST)])
