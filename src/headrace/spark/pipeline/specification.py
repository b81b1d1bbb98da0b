"""A pipeline as data: the checked contents of its file (see `reading`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.spark.pipeline.document import Node

ONCE = "once"
MODES = ("append", "update", "complete")


@dataclass(frozen=True)
class ServerSpec:
    """Where the streams are. Without `urls` the pipeline runs its own server."""

    urls: tuple[str, ...] = ()
    user: str = ""
    password: str = ""
    token: str = ""
    store: str = ""
    port: int = -1

    @property
    def embedded(self) -> bool:
        return not self.urls

    def __repr__(self) -> str:
        return f"ServerSpec(urls={self.urls})"


@dataclass(frozen=True)
class StreamSpec:
    """A stream that is created if it does not exist."""

    name: str
    subjects: tuple[str, ...]
    duplicate_window: float
    node: Node


@dataclass(frozen=True)
class Watermark:
    column: str
    delay: str


@dataclass(frozen=True)
class SourceSpec:
    name: str
    options: Mapping[str, str]
    watermark: Watermark | None
    node: Node


@dataclass(frozen=True)
class StepSpec:
    """Either `sql`, or `python` (`module:function`) with the views that it gets."""

    name: str
    sql: str
    python: str
    inputs: tuple[str, ...]
    watermark: Watermark | None
    node: Node


@dataclass(frozen=True)
class SinkSpec:
    """Where a view goes: to the table in a directory, to a subject, or to the screen."""

    name: str
    view: str
    table: str
    partition_by: tuple[str, ...]
    compact_after: int
    publish: bool
    subject: str
    stream: str
    console: bool
    mode: str
    trigger: str
    """`once`, seconds as text, or empty: as often as possible."""
    node: Node


@dataclass(frozen=True)
class Pipeline:
    name: str
    directory: Path
    """Where the file is; paths in it are relative to this."""
    server: ServerSpec
    streams: tuple[StreamSpec, ...]
    master: str
    conf: Mapping[str, str]
    checkpoint: str
    sources: tuple[SourceSpec, ...]
    steps: tuple[StepSpec, ...]
    sinks: tuple[SinkSpec, ...]
