"""Which server says something, and when: the field `server` of its events, traces and answers."""

from __future__ import annotations

import time
from typing import Any

from headrace.config.options import NATS_VERSION, Options
from headrace.go_formats import format_time

JETSTREAM_FLAGS = 3  # it has streams, and takes snapshots of them as bytes


class ServerStamp:
    """Numbers what the server says. `options` are those that it runs with now."""

    def __init__(self, options: Options, server_id: str) -> None:
        self.options = options
        self.server_id = server_id
        self._sequence = 0

    def next(self) -> dict[str, Any]:
        """The fields in nats-server's order, without `feature_flags`: they are of its own features."""
        options = self.options
        self._sequence += 1
        described: dict[str, Any] = {
            "name": options.server_name or self.server_id,
            "host": options.host,
            "id": self.server_id,
        }
        if options.jetstream_domain:
            described["domain"] = options.jetstream_domain
        described["ver"] = NATS_VERSION
        if options.tags:
            described["tags"] = options.tags
        if options.metadata:
            described["metadata"] = options.metadata
        return described | {
            "jetstream": options.jetstream,
            "flags": JETSTREAM_FLAGS if options.jetstream else 0,
            "seq": self._sequence,
            "time": format_time(time.time_ns()),
        }
