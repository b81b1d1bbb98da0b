"""Small JSON bodies that nats-server decodes without its API's care: pull requests, delays, resets, unpins.

Unknown fields are ignored, there is exactly one value, and errors have Go's plain words.
"""

from __future__ import annotations

import re
from typing import TypeVar

from headrace.streams.api.json_requests import decode
from headrace.streams.config import Wire
from headrace.streams.errors import ApiError, api_error

WireType = TypeVar("WireType", bound=Wire)
END_OF_INPUT = "unexpected end of JSON input"
PREFIX = "invalid JSON: "


def unmarshal(body: bytes, kind: type[WireType]) -> WireType:
    """The value, or ApiError `invalid_json`."""
    if not body.strip():
        raise api_error("invalid_json", err=END_OF_INPUT)
    try:
        return decode(body, kind, strict=False)
    except ApiError as error:
        raise api_error("invalid_json", err=plain_reason(error)) from None


def plain_reason(error: ApiError) -> str:
    reason = error.description.removeprefix(PREFIX)
    return END_OF_INPUT if reason == "unexpected EOF" else re.sub(r" at offset \d+$", "", reason)
