"""Makes the streams that a pipeline needs, and looks at those that it writes to, before Spark is started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.spark.duplicate_window import NANOSECONDS, warning_about
from headrace.spark.pipeline.specification import Pipeline

if TYPE_CHECKING:
    from headrace.client import Client


def make_streams(client: Client, pipeline: Pipeline) -> list[str]:
    """Make those that do not exist, and return their names. Those that exist are left as they are."""
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
            stream.node.fail(f"the server did not make {stream.name}: {answer['error'].get('description')}")
        made.append(stream.name)
    return made


def check_streams(client: Client, pipeline: Pipeline) -> Iterator[str]:
    """Raises ConfigError for a stream that is not there; yields what else there is to say."""
    existing = set(client.stream_names())
    for source in pipeline.sources:
        for stream in source.options["stream"].split(","):
            if stream not in existing:
                source.node.fail(
                    f"the server has no stream {stream}", "make it, or let `streams:` in this file make it"
                )
    for sink in pipeline.sinks:
        if sink.publish and sink.subject:
            if not client.stream_names(sink.subject):
                sink.node.fail(
                    f"no stream keeps the subject {sink.subject}, so nothing would be acknowledged"
                )
            warning = warning_about(client, sink.subject)
            if warning:
                yield warning
