"""The slow way of a publish into a stream: everything that the engine's sink does not decide on its own.

    on_publish   a message of a client: checked, stored, answered; or handed to the batch that it belongs to
    take         a message from anywhere: checked and stored
    after_commit a group is on disk: republish it, watch its age

The sink calls `on_publish` while messages are being routed: it may store and answer, but not publish or subscribe.
Answers leave when everything that was stored until then is on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.streams import duplicates, headers
from headrace.streams.answers import encode_error, encode_stored, encode_value
from headrace.streams.batches import Batches
from headrace.streams.checks import Checks
from headrace.streams.counters import read_value
from headrace.streams.errors import ApiError, api_error
from headrace.streams.expiry import Expiry
from headrace.streams.fast_batches import FastBatches, is_fast
from headrace.streams.formats import now
from headrace.streams.mirror import Mirror
from headrace.streams.publication import Duplicate, Publication
from headrace.streams.scan import Scan
from headrace.streams.scheduler import Scheduler
from headrace.streams.source import Sources
from headrace.streams.writer import Writer
from headrace.subjects.transform import Transform

if TYPE_CHECKING:
    from headrace.engine.log import Stored
    from headrace.streams.stream import Stream


class Ingest:
    """Of one stream. `configure` after it was created, recovered or updated; `stop` when it goes."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._transform: Transform | None = None
        self._writer = Writer(stream)
        self._expiry = Expiry(stream.log, self.take_own)
        self._scheduler: Scheduler | None = None
        self._scan: Scan | None = None
        self._checks = Checks(stream.config, stream.log, stream.sink, stream.jetstream.max_payload)
        self._batches = Batches(stream, self)
        self._fast_batches = FastBatches(stream, self)
        self._mirror: Mirror | None = None
        self._sources: Sources | None = None

    # -- its life -----------------------------------------------------------------------------------------

    def configure(self) -> None:
        config = self._stream.config
        had_ttls = self._checks.config.allow_msg_ttl and self._scan is not None
        self._checks.config = config
        wanted = config.subject_transform
        self._transform = Transform(wanted.src, wanted.dest) if wanted and wanted.dest else None
        self._expiry.configure(config)
        self._configure_scheduler()
        self._writer.configure(self._expiry, self._scheduler)
        if (config.allow_msg_ttl and not had_ttls) or self._scheduler is not None:
            self._look_through_log()
        self._configure_origins()

    def _configure_scheduler(self) -> None:
        if self._scheduler is not None:
            self._scheduler.stop()
        allowed = self._stream.config.allow_msg_schedules
        self._scheduler = Scheduler(self._stream.log, self.take_own) if allowed else None
