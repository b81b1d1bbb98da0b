"""A mirror: a copy of another stream, with its sequences and times. Nobody else writes to it.

Messages that the origin no longer has are missing here, too: their sequences are skipped. After a restart,
or when the origin is back, it resumes after its own last message, so it saves nothing else (follower.py
calls `_begin`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.streams import headers
from headrace.streams.errors import ApiError
from headrace.streams.formats import parse_store_time
from headrace.streams.ingest.publication import Duplicate, Publication
from headrace.streams.origins.follower import Follower, first_to_read

if TYPE_CHECKING:
    from headrace.engine.store.readings import Stored
    from headrace.streams.config import StreamSource
    from headrace.streams.ingest.intake import Intake
    from headrace.streams.stream import Stream

_PASSING_ERRORS = ("stream_store_failed", "insufficient_resources")


class Mirror:
    def __init__(self, intake: Intake, config: StreamSource) -> None:
        self._intake = intake
        self._config = config
        self._log = intake.log
        self.follower = Follower(
            intake.stream, config, self._begin, self._copy, intake.stream.serve_direct_gets
        )

    def start(self) -> None:
        self.follower.start()

    def stop(self) -> None:
        self.follower.stop()

    @property
    def was_current(self) -> bool:
        """Whether it has been current at least once."""
        return self.follower.was_current

    def when_current(self, action: Callable[[], None]) -> None:
        """Call it once the mirror has everything that the origin has now; at once if there is no origin."""
        self.follower.when_current(action)

    def after_commit(self) -> None:
        self.follower.after_own_commit()

    def info(self) -> dict[str, Any]:
        info = self.follower.info()
        if not self.follower.was_looked_for:  # nats-server does not know it earlier, either
            info.pop("filter_subject", None)
        return info

    def _begin(self, origin: Stream) -> int:
        log, config = self._log, self._config
        wanted = log.last_seq + 1
        if not log.last_seq:  # the first time: as the configuration says
            if config.opt_start_seq:
                wanted = config.opt_start_seq
            elif config.opt_start_time is not None:
                wanted = origin.log.seek_time(parse_store_time(config.opt_start_time))
        start = max(first_to_read(origin, wanted), log.last_seq + 1)
        if start > log.last_seq + 1:
            log.skip(start)
        return start

    def _copy(self, message: Stored) -> bool:
        log = self._log
        if message.seq <= log.last_seq:
            return True  # the mirror was purged beyond it
        if message.seq > log.last_seq + 1 and not log.count:
            log.skip(message.seq)
        block = headers.remove_prefixed(message.headers, headers.EXPECTED_PREFIX)
        block = headers.remove_prefixed(block, headers.BATCH_PREFIX)
        subject = self.follower.transformed(message.subject)
        publication = Publication(subject, b"", block, message.payload, is_sourced=True)
        publication.seq, publication.time = message.seq, message.time
        try:
            self._intake.accept(publication)
        except (ApiError, Duplicate) as refusal:
            return self._on_refused(refusal)
        return True

    def _on_refused(self, refusal: Exception) -> bool:
        """Returns False to try again, if the stream is full or the disk fails.

        A message that can never be stored is skipped.
        """
        if isinstance(refusal, ApiError) and refusal.name in _PASSING_ERRORS:
            return False
        stream = self._intake.stream
        stream.jetstream.logger.warn(f"Mirror {stream.name!r} leaves out a message: {refusal}")
        return True
