"""A small blocking client of any NATS server: streams into Arrow columns, Arrow columns into streams."""

from __future__ import annotations

from typing import Any

from headrace.client.api import StreamInfo
from headrace.client.client import Client
from headrace.client.errors import (
    ApiError,
    ConnectionFailed,
    FetchFailed,
    MessagesMissing,
    NoResponders,
    PublishFailed,
    RequestTimeout,
    StreamNotFound,
)
from headrace.client.publish import Publisher, Report
from headrace.client.tls import Tls

__all__ = [
    "SCHEMA",
    "ApiError",
    "Client",
    "ConnectionFailed",
    "FetchFailed",
    "MessagesMissing",
    "NoResponders",
    "PublishFailed",
    "Publisher",
    "Report",
    "RequestTimeout",
    "StreamInfo",
    "StreamNotFound",
    "Tls",
]


def __getattr__(name: str) -> Any:
    """SCHEMA needs pyarrow, which is imported on first use."""
    if name == "SCHEMA":
        from headrace.client.arrays import SCHEMA

        return SCHEMA
    raise AttributeError(name)
