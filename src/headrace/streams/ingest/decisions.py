"""The slow path of a publish into a stream: everything that the engine's sink does not decide on its own.

    on_publish    a message of a client: checked, stored, answered; or handed to the batch that it belongs to
    accept_own    a message that this server made: a delete marker, or one that was scheduled
    after_commit  a group is on disk: it is republished, and streams that follow this one read it

The sink calls `on_publish` while messages are routed: it may store and answer, but not publish or subscribe.
Answers are sent when everything that was stored before them is on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.broker.message_trace.headers import DISABLED, with_destination
from headrace.streams import headers
from headrace.streams.errors import ApiError, store_error
from headrace.streams.ingest.acknowledgements import encode_error, encode_stored, encode_value
from headrace.streams.ingest.batches import Batches, remove_torn_batch
from headrace.streams.ingest.counters import read_value
from headrace.streams.ingest.duplicate_window_recovery import DuplicateWindowRecovery
from headrace.streams.ingest.fast_batches import FastBatches, is_fast
from headrace.streams.ingest.intake import Intake
from headrace.streams.ingest.message_trace import describe_refusal
from headrace.streams.ingest.publication import Duplicate, Publication
from headrace.streams.ingest.scheduler import Scheduler
from headrace.streams.message_ttl import MessageTtls
from headrace.streams.origins.mirror import Mirror
from headrace.streams.origins.source import Sources
from headrace.streams.origins.source_positions import Positions
from headrace.streams.scan import Scan
from headrace.streams.usage import StreamUsage

if TYPE_CHECKING:
    from headrace.broker.message_trace.trace import MessageTrace
    from headrace.engine.store.readings import Stored
    from headrace.streams.config import StreamConfig
    from headrace.streams.origins.follower import Follower
    from headrace.streams.stream import Stream


class Ingest:
    """The slow path of one stream.

    `recover` after a restart, `configure` at the start and at each change, `stop` at the end.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._intake = Intake(stream)
        self._batches = Batches(self._intake)
        self._fast_batches = FastBatches(self._intake)
        self._message_ttls = MessageTtls(stream.log, self.accept_own, stream.on_removed, stream.jetstream.now)
        self._scheduler = Scheduler(stream.log, self.accept_own)
        self._window_recovery: DuplicateWindowRecovery | None = None
        self._scan: Scan | None = None
        self._mirror: Mirror | None = None
        self._sources: Sources | None = None
        self._positions = Positions(stream.log, stream.directory)
        self._configured: StreamConfig | None = None
        self._usage: StreamUsage | None = None
        self.followers: set[Follower] = set()  # of other streams, that mirror or source this one

    # -- life cycle ---------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read what is stored next to the log. Raises OSError."""
        self._positions.load()

    def recover(self) -> None:
        """The log has been read: restore what depends on its messages."""
        stream = self._stream
        if remove_torn_batch(stream.log):
            stream.log.commit()
        stream.sink.duplicates.length = stream.config.duplicate_window
        self._window_recovery = DuplicateWindowRecovery(stream.sink, stream.log, stream.jetstream.now())

    def configure(self) -> None:
        old, config = self._configured, self._stream.config
        self._configured = config
        self._intake.configure()
        self._message_ttls.configure(config)
        has_new_ttls = config.allow_msg_ttl and not (old and old.allow_msg_ttl)
        has_new_schedules = config.allow_msg_schedules and not (old and old.allow_msg_schedules)
        scheduler = self._scheduler if config.allow_msg_schedules else None
        self._usage = self._usage or StreamUsage(
            self._stream.jetstream.resources.usage,
            self._stream.account.resources.usage,
            self._stream.log,
            config.storage,
            self._on_room_changed,
        )
        self._usage.update()
        self._intake.writer.attach(self._usage, self._message_ttls, scheduler)
        if not config.allow_msg_schedules:
            self._scheduler.stop()
        if has_new_ttls or has_new_schedules:
            self._look_through_log()
        if old is None or old.mirror != config.mirror or old.sources != config.sources:
            self._follow(config)

    def stop(self) -> None:
        if self._window_recovery is not None:
            self._window_recovery.stop()
        if self._scan is not None:
            self._scan.stop()
        self._batches.stop()
        self._fast_batches.stop()
        self._message_ttls.stop()
        self._scheduler.stop()
        self._stop_following()
        for follower in list(self.followers):
            follower.on_lost()
        if self._usage is not None:
            self._usage.leave()

    def _look_through_log(self) -> None:
        if self._scan is not None:
            self._scan.stop()
        self._scan = Scan(self._stream.log, self._on_scanned)

    def _on_scanned(self, message: Stored) -> None:
        config = self._stream.config
        if config.allow_msg_ttl:
            self._message_ttls.note_message(message)
        if config.allow_msg_schedules:
            self._scheduler.note_message(message)

    def _follow(self, config: StreamConfig) -> None:
        if config.mirror is not None or not config.sources:
            self._stop_following()
        if config.mirror is not None:
            self._mirror = Mirror(self._intake, config.mirror)
            self._mirror.start()
        if config.sources:
            self._sources = self._sources or Sources(self._intake, self._positions)
            self._sources.follow(config.sources)

    def _stop_following(self) -> None:
        if self._mirror is not None:
            self._mirror.stop()
            self._mirror = None
        if self._sources is not None:
            self._sources.stop()
            self._sources = None

    # -- questions from the stream ------------------------------------------------------------------------

    @property
    def needs_every_message(self) -> bool:
        """Whether a feature of the stream applies to plain messages, too, or storage may be full."""
        config = self._stream.config
        return bool(
            (self._usage is not None and (self._usage.is_limited or self._usage.is_full))
            or config.subject_transform
            or config.republish
            or config.allow_msg_counter
            or config.allow_msg_schedules
            or config.allow_batched
        )

    @property
    def is_mirror_ready(self) -> bool:
        """Whether it is a mirror that may answer for its origin."""
        return self._mirror is not None and self._mirror.was_current

    def when_current(self, action: Callable[[], None]) -> None:
        """For a mirror: call it when the mirror has everything that its origin has now."""
        if self._mirror is None:
            action()
        else:
            self._mirror.when_current(action)

    def origins(self) -> list[Follower]:
        """The followers of the streams that this one mirrors or sources."""
        if self._mirror is not None:
            return [self._mirror.follower]
        return self._sources.followers if self._sources is not None else []

    def mirror_info(self) -> dict[str, Any] | None:
        return self._mirror.info() if self._mirror is not None else None

    def sources_info(self) -> list[dict[str, Any]] | None:
        return self._sources.info() if self._sources is not None else None

    def _on_room_changed(self) -> None:
        sink = self._stream.sink
        sink.direct = not (self.needs_every_message or self._stream.config.sealed)

    def after_commit(self) -> None:
        if self._usage is not None:
            self._usage.update()
        self._intake.writer.after_commit()
        self._message_ttls.arm()
        if self._mirror is not None:
            self._mirror.after_commit()
        if self._sources is not None:
            self._sources.after_commit()
        for follower in list(self.followers):
            follower.wake()

    # -- messages -----------------------------------------------------------------------------------------

    def on_publish(self, subject: bytes, reply: bytes, block: bytes, payload: bytes) -> None:
        publication = Publication(subject, reply, headers.strip_status(block), payload)
        try:
            self._accept(publication, reply)
        except OSError as error:  # something that it depends on cannot be read
            failure = store_error(error)
            self._stream.sink.answer(reply, encode_error(self._stream.name, failure))

    def on_traced(
        self, subject: bytes, reply: bytes, block: bytes, payload: bytes, trace: MessageTrace
    ) -> None:
        """The same for a traced message. The trace says nothing before the message is on disk."""
        stream = self._stream
        part = trace.on_stream(stream.name)
        block = headers.strip_status(block)
        if not part.is_only:  # reading it from the stream must not cause another trace
            block = with_destination(block, DISABLED)
        publication = Publication(subject, reply, block, payload, trace=part)
        last_id = stream.sink.last_msg_id
        try:
            refusal = self._accept(publication, reply)
        except OSError as error:
            refusal = store_error(error)
            stream.sink.answer(reply, encode_error(stream.name, refusal))
        if refusal is not None:
            part.finish(describe_refusal(refusal, publication, stream.log, last_id))
        elif part.is_only:
            part.finish(None)
        else:
            stream.later(lambda: stream.log.when_committed(part.finish))

    def _accept(self, publication: Publication, reply: bytes) -> ApiError | Duplicate | None:
        """Why it is refused; None: it is not refused, or, as part of a batch, not yet."""
        batch_id = headers.text(publication.headers, headers.BATCH_ID)
        if is_fast(reply) or batch_id:
            if publication.trace is not None and publication.trace.is_only:
                return None
            if is_fast(reply):
                self._fast_batches.on_message(publication)
            else:
                self._batches.on_message(batch_id, publication)
            return None
        sink = self._stream.sink
        try:
            seq = self._intake.accept(publication)
        except Duplicate as duplicate:
            sink.answer_duplicate(reply, duplicate.seq)
            return duplicate
        except ApiError as error:
            sink.answer(reply, encode_error(self._stream.name, error))
            return error
        if seq:
            sink.answer(reply, encode_stored(sink, seq, self._details(publication)))
        return None

    def accept_own(self, publication: Publication) -> int:
        """Raises ApiError. Called by timers, outside of the sink, so it commits at once."""
        try:
            return self._intake.accept(publication)
        finally:
            self._stream.log.commit()

    def _details(self, publication: Publication) -> bytes:
        """What the acknowledgement has in addition to the sequence."""
        if not self._stream.config.allow_msg_counter:
            return b""
        return encode_value(read_value(publication.payload))
