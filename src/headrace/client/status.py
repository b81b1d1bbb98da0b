"""The first line of a header block in a status message of the server: `NATS/1.0 503`, `NATS/1.0 409 …`."""

from __future__ import annotations

from typing import NamedTuple

PREFIX = b"NATS/1.0 "


HEARTBEAT = 100
TIMEOUT = 408
CONFLICT = 409
NO_RESPONDERS = 503


class Status(NamedTuple):
    code: int  # 0: it is not a status
    text: str
    headers: dict[str, str]


def parse_status(headers: bytes) -> Status:
    first, *lines = headers.decode(errors="replace").split("\r\n")
    code, _, text = first.removeprefix(PREFIX.decode()).partition(" ")
    if not headers.startswith(PREFIX) or not code.isdigit():
        return Status(0, "", {})
    pairs = (line.partition(":") for line in lines if ":" in line)
    return Status(int(code), text, {key: value.strip() for key, _, value in pairs})
