"""What a stream will refuse, known from its configuration before anything is published.

A file is checked against it first, so that an import is not refused in the middle. Counters are prepared
here, too: their messages are exported with the sum as payload, and published as increments without one.
"""

from __future__ import annotations

import json
import re
from typing import Any

from headrace.cli.stream.rows import Row, imported_headers, size_of_headers

INCREMENT = "Nats-Incr"
_NUMBER = re.compile(r"[+-]?[0-9]{1,4000}")
_NEEDS = {
    INCREMENT: ("allow_msg_counter", "stores no counters"),
    "Nats-TTL": ("allow_msg_ttl", "allows no TTL of messages"),
    "Nats-Rollup": ("allow_rollup_hdrs", "allows no rollups"),
    "Nats-Schedule": ("allow_msg_schedules", "allows no schedules"),
}
"""Headers that a stream takes only if its configuration allows them."""
_OPTIONS = {
    "allow_msg_ttl": "--allow-msg-ttl",
    "allow_rollup_hdrs": "--allow-rollup",
    "allow_msg_schedules": "--allow-schedules",
}


class Refused(Exception):
    """Why the stream will not store a row."""


class Acceptance:
    """For the rows of a file, in their order."""

    def __init__(self, config: dict[str, Any], max_payload: int) -> None:
        self._config = config
        self._name = config["name"]
        self._max_payload = max_payload
        self._counts = bool(config.get("allow_msg_counter"))
        self._sums: dict[str, int] = {}

    def prepare(self, row: Row) -> Row:
        """The row as it has to be published. Raises Refused."""
        for name, value in row.headers:
            needed, reason = _NEEDS.get(name, ("", ""))
            if needed and value and not self._config.get(needed):
                option = _OPTIONS.get(needed)
                way_out = f" (`headrace stream edit {self._name} {option}`)" if option else ""
                raise Refused(f"it has the header {name}, and the stream {self._name} {reason}{way_out}")
        if self._counts:
            row = self._increment(row)
        self._check_size(row)
        return row

    def _increment(self, row: Row) -> Row:
        """What a counter grew by since the row before it, so that sums are as they were.

        Nats-Incr itself is not enough: the first messages of a counter may be gone.
        """
        before = self._sums.get(row.subject, 0)
        if row.data:
            total = read_sum(row.data)
        else:
            given = next((value for name, value in row.headers if name == INCREMENT), "")
            total = before + int(given) if _NUMBER.fullmatch(given) else None
        if total is None:
            raise Refused(
                f'the stream {self._name} stores counters: a message has the data {{"val":"5"}}, or none'
                f" and the header {INCREMENT}"
            )
        self._sums[row.subject] = total
        kept = [pair for pair in row.headers if pair[0] != INCREMENT]
        return row._replace(data=b"", headers=[*kept, (INCREMENT, f"{total - before:+d}")])

    def _check_size(self, row: Row) -> None:
        limit = self._config.get("max_msg_size", -1)
        if limit < 0:
            return
        size = size_of_headers(imported_headers(row, self._max_payload)) + len(row.data)
        if size > limit:
            raise Refused(
                f"message size exceeds maximum allowed: {size} bytes with its headers, and the stream"
                f" {self._name} stores at most {limit}"
            )


def read_sum(data: bytes) -> int | None:
    """The value of a counter, or None if it is none."""
    try:
        text = json.loads(data)["val"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return int(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else None
