"""A pipeline as data: the checked contents of its file (see `reading`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.client.credentials import Credentials
from headrace.client.tls import Tls
from headrace.spark.pipeline.document import Node
from headrace.spark.table.interface import Settings

if TYPE_CHECKING:
    from headrace.spark.payload.decoding import Decoding

ONCE = "once"
MODES = ("append", "update", "complete")


@dataclass(frozen=True)
class ServerSpec:
    """Where the streams are. Without `urls` the pipeline runs its own server."""

    urls: tuple[str, ...] = ()
    credentials: Credentials = field(default_factory=Credentials)
    tls: Tls | None = None
    store: str = ""
    port: int = -1
    node: Node | None = None

    @property
    def embedded(self) -> bool:
        return not self.urls

    def __repr__(self) -> str:
        return "ServerSpec(...)"  # a URL may contain a password


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

    @property
    def module(self) -> str:
        return self.python.partition(":")[0]


@dataclass(frozen=True)
class SinkSpec:
    """Where a view goes: to the table in a directory, to a subject, or to the screen."""

    name: str
    view: str
    table: str
    settings: Settings
    """The format of the table, and how to reach it."""
    decoding: Decoding | None
    """How the messages of a source become typed rows; None leaves rows as they are."""
    on_bad_row: str
    key: tuple[str, ...]
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

    def source_of(self, sink: SinkSpec) -> SourceSpec | None:
        """The source whose messages the sink gets; None if it gets the result of a query."""
        return next((source for source in self.sources if source.name == sink.view), None)
