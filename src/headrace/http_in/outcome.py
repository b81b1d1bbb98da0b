"""What became of a message: the status and the document that answer it."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.streams.errors import ERRORS
from headrace.unreadable import UNREADABLE_JSON

Outcome = tuple[int, dict[str, Any]]

STATUSES = {
    ERRORS[name][1]: status
    for status, names in {
        400: ("stream_rollup_failed",),
        409: (
            "stream_wrong_last_sequence",
            "stream_wrong_last_sequence_constant",
            "stream_wrong_last_msg_id",
            "stream_not_match",
        ),
        413: ("stream_message_exceeds_maximum", "stream_header_exceeds_maximum"),
        503: (
            "account_resources_exceeded",
            "memory_resources_exceeded",
            "storage_resources_exceeded",
            "stream_store_failed",
        ),
    }.items()
    for name in names
}
"""By the number of JetStream's error; all others have the code that JetStream gives them."""


class _Error(msgspec.Struct):
    code: int = 500
    err_code: int = 0
    description: str = ""


class _Acknowledgement(msgspec.Struct):
    stream: str
    seq: int = 0
    duplicate: bool = False
    domain: str = ""
    val: str = ""
    error: _Error | None = None


def read_acknowledgement(payload: bytes) -> Outcome | None:
    """None: it is none, but the answer of some other subscriber."""
    try:
        found = msgspec.json.decode(payload, type=_Acknowledgement)
    except UNREADABLE_JSON:
        return None
    if found.error is not None:
        return failed_in_stream(found.error)
    if found.seq <= 0:
        return None
    document: dict[str, Any] = {"stream": found.stream, "seq": found.seq}
    if found.duplicate:
        document["duplicate"] = True
    for name in ("domain", "val"):
        if value := getattr(found, name):
            document[name] = value
    return 200, document


def failed_in_stream(error: _Error) -> Outcome:
    status = STATUSES.get(error.err_code, error.code)
    return failed(status if 400 <= status < 600 else 500, error.description, error.err_code)


def failed(status: int, description: str, err_code: int = 0) -> Outcome:
    """In the form of JetStream's errors. Without `err_code` it is not one of them."""
    error: dict[str, Any] = {"code": status}
    if err_code:
        error["err_code"] = err_code
    return status, {"error": {**error, "description": description}}


ACCEPTED: Outcome = (202, {"accepted": True})
"""Subscribers have it, if there are any; it is not stored by this answer."""
