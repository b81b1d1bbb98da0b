"""Checks the streams of a pipeline, and creates those that it asks for, before a query is started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.spark.pipeline.specification import Pipeline
from headrace.spark.writing.duplicate_window import NANOSECONDS, warning_about, warning_about_stream

if TYPE_CHECKING:
    from headrace.client import Client


HINT = "check its name, make it, or let `streams:` in this file make it"


def check_names(client: Client, pipeline: Pipeline) -> None:
    """Raises ConfigError for a stream that does not exist and will not be created."""
    known = {*client.stream_names(), *(stream.name for stream in pipeline.streams)}
    for source in pipeline.sources:
        for stream in source.options["stream"].split(","):
            if stream not in known:
                source.node.fail(f"the server has no stream {stream}", HINT)
    for sink in pipeline.sinks:
        if sink.stream and sink.stream not in known:
            sink.node.fail(f"the server has no stream {sink.stream}", HINT)


def make_streams(client: Client, pipeline: Pipeline) -> list[str]:
    """Create those that do not exist, and return their names. Existing ones are left as they are."""
    existing = set(client.stream_names())
    made = []
    for stream in pipeline.streams:
        if stream.name in existing:
            continue
        config = {
            "name": stream.name,
            "subjects": list(stream.subjects),
            "duplicate_window": int(stream.duplicate_window * NANOSECONDS),
        }
        answer = json.loads(
            client.request(f"$JS.API.STREAM.CREATE.{stream.name}", json.dumps(config).encode())
        )
        if "error" in answer:
            stream.node.fail(f"the server did not create {stream.name}: {answer['error'].get('description')}")
        made.append(stream.name)
    return made


def check_sinks(client: Client, pipeline: Pipeline) -> Iterator[str]:
    """Raises ConfigError for a subject that no stream stores; yields warnings."""
    for sink in pipeline.sinks:
        if not sink.publish:
            continue
        if sink.subject and not client.stream_names(sink.subject):
            sink.node.fail(f"no stream stores the subject {sink.subject}, so nothing would be acknowledged")
        warning = None
        if sink.stream:
            warning = warning_about_stream(client, sink.stream)
        elif sink.subject:
            warning = warning_about(client, sink.subject)
        if warning:
            yield warning
