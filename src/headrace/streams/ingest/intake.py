"""The path of every message into a stream, wherever it comes from: transform, check, store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.streams.errors import store_error
from headrace.streams.ingest.checks import Checks
from headrace.streams.ingest.writer import Writer
from headrace.subjects.transform import Transform

if TYPE_CHECKING:
    from headrace.broker.message_trace.trace import PartInStream
    from headrace.engine.store.log import Log
    from headrace.engine.streams.stream_sink import StreamSink
    from headrace.streams.ingest.publication import Publication
    from headrace.streams.stream import Stream


class Intake:
    """The intake of one stream. Nothing here answers or commits: an accepted message is not on disk yet."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.sink: StreamSink = stream.sink
        self.log: Log = stream.log
        self.checks = Checks(stream.config, stream.log, stream.sink, stream.jetstream.max_payload)
        self.writer = Writer(stream)
        self._transform: Transform | None = None

    def configure(self) -> None:
        self.checks.config = self.stream.config
        wanted = self.stream.config.subject_transform
        self._transform = Transform(wanted.src, wanted.dest) if wanted and wanted.dest else None
        self.writer.configure()

    def transformed(self, subject: bytes) -> bytes:
        """The subject under which a message is stored.

        A subject that the transform does not match stays as it is.
        """
        if self._transform is None:
            return subject
        changed = self._transform.apply(subject)
        return subject if changed is None else changed

    def accept(self, publication: Publication) -> int:
        """Store a message, and return its sequence; 0 if it is only traced. Raises ApiError or Duplicate."""
        publication.subject = self.transformed(publication.subject)
        try:
            self.checks.check(publication)
            if publication.trace is not None and not self._trace(publication.trace, publication.subject):
                return 0
            return self.writer.store(publication)
        except OSError as error:  # an earlier message that it depends on cannot be read
            raise store_error(error) from None

    def _trace(self, trace: PartInStream, subject: bytes) -> bool:
        """Returns whether it is stored, too."""
        has_interest = self.stream.config.retention != "interest" or any(
            consumer.core.cursor.filter.matches(subject) for consumer in self.stream.consumers.values()
        )
        trace.on_checked(subject, has_interest=has_interest)
        return not trace.is_only

    def accept_checked(self, publications: list[Publication]) -> int:
        """Store messages that were transformed and checked as a batch; the last one's sequence."""
        for publication in publications:
            self.checks.check_stored_late(publication)
        return self.writer.store_all(publications)
