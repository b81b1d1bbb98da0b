r"""One stream: its log, who writes to it, who reads it, and when messages leave it.

    publish -> sink (engine) -> log -> committed on disk -> acknowledgement
                 \-> ingest.on_publish: everything that plain messages do not need

The engine stores plain publishes by itself. When a group is on disk the log calls `after_commit`, which wakes
the consumers. API requests and responses are handled in api/stream_requests.py.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

import msgspec

from headrace.engine.store.log import Log
from headrace.engine.streams.stream_sink import StreamSink
from headrace.streams.api.direct_get import DirectGet
from headrace.streams.api.stream_info import ClusterInfo, StreamInfo, StreamState
from headrace.streams.api_levels import with_server_metadata
from headrace.streams.config import StreamConfig
from headrace.streams.consumers.consumer import Consumer
from headrace.streams.consumers.removed_messages import RemovedMessages
from headrace.streams.errors import api_error
from headrace.streams.expiry import Expiry
from headrace.streams.files import MESSAGES
from headrace.streams.formats import format_time
from headrace.streams.ingest.acknowledgements import encode_error
from headrace.streams.ingest.decisions import Ingest
from headrace.streams.message_ttl import has_own_ages
from headrace.streams.purge import purge
from headrace.streams.retention import Retention
from headrace.streams.slices import STEP_RECORDS, Background, Step, StuckError, Work, outcome, steps_of
from headrace.subjects.grammar import encode

if TYPE_CHECKING:
    from headrace.broker.message_trace.trace import MessageTrace
    from headrace.streams.jetstream_account import JetStreamAccount

ERASE_SECONDS = 2.0
"""Between two attempts to overwrite the text of a deleted message."""
NO_MEMORY = "out of memory"
STEP_MESSAGES = 200
"""Handled in Python in one step; about a millisecond."""
STEP_CONSUMERS = 20
"""The same, for consumers that deliver messages."""


class Stream:
    """`directory` is None for a stream in memory. `open`, then `start`; `stop` keeps what is on disk."""

    def __init__(
        self, account: JetStreamAccount, config: StreamConfig, created: int, directory: str | None
    ) -> None:
        self.account: JetStreamAccount = account
        self.jetstream = jetstream = account.jetstream
        self.name: str = config.name
        self.config: StreamConfig = config
        self.created = created
        self.directory = directory
        self.is_started = False
        self.consumers: dict[str, Consumer] = {}
        self.damaged_consumers: set[str] = set()
        """Their configuration is lost: what they need is kept until one is deleted or created again."""
        self.log: Log = Log(
            os.path.join(directory, MESSAGES) if directory else None,
            committer=jetstream.committer if directory else None,
            compression=config.compression,
        )
        self.log.on_warning = self._warn
        self.sink: StreamSink = StreamSink(jetstream.hub, account.interest, self.log, self)
        self.ingest = Ingest(self)
        self._acknowledged: deque[int] = deque()
        self._erasing: asyncio.TimerHandle | None = None
        self._retention = Retention(self.log, self.consumers, self.damaged_consumers)
        self._slices = slices = jetstream.slices
        self._removing_acknowledged = Background(slices, self.log, self._remove_acknowledged)
        self._removing_unneeded = Background(
            slices,
            self.log,
            self._remove_unneeded,
            progress=lambda: self._retention.checked_seq,
            on_stuck=self._on_stuck,
        )
        self._to_wake: dict[Consumer, None] = {}
        self._removed_messages = RemovedMessages(slices, self.log, self.consumers)
        self._expiry = Expiry(slices, self.log, jetstream.now, self.on_removed, self._on_stuck)
        self._direct_get = DirectGet(
            self.name,
            self.log,
            slices,
            account.client,
            jetstream.options.max_pending,
            when_current=self.ingest.when_current,
        )

    # -- starting and stopping

    def open(self) -> list[str]:
        """Read what is on disk. Returns a line for each damage that was found and repaired or skipped.

        Raises OSError if something cannot be read.
        """
        self.ingest.load()
        return list(self.log.recover())

    def start(self, *, is_new: bool) -> None:
        """Be ready for messages, which come once it has subscribed."""
        if is_new and self.config.first_seq:
            self.log.skip(self.config.first_seq)
            self.log.commit()
        if not is_new:
            self.ingest.recover()  # a torn batch goes before limits count it and remove others
        self._limit()
        self._retention.recovered(self.config.retention)
        self.log.on_committed = self.after_commit
        self.is_started = True
        self._configure()

    def on_consumers_recovered(self) -> None:
        """All of its consumers are recovered."""
        if self._retention.on_recovered_consumers():
            self.log.commit()

    def stop(self) -> None:
        """Stop everything but the log, which `close` closes."""
        self.is_started = False
        self.sink.unsubscribe_all()
        self._direct_get.serve(set())
        self._expiry.stop()
        self._removed_messages.stop()
        if self._erasing is not None:
            self._erasing.cancel()
        for work in (self._removing_acknowledged, self._removing_unneeded):
            work.stop()
        for consumer in list(self.consumers.values()):
            consumer.stop()
        self.ingest.stop()
        self.log.on_committed = None

    def delete_consumers(self) -> None:
        """The stream itself is about to be deleted."""
        self.is_started = False
        for consumer in list(self.consumers.values()):
            consumer.delete()

    def close(self) -> None:
        """Write what makes the next start fast. Blocks."""
        self.log.close()

    def update(self, config: StreamConfig) -> None:
        """Use a configuration that was checked and is on disk. Then `subscribe` and `enforce_limits`."""
        self.config = config
        self._limit(at_once=False)
        self._retention.configure(config.retention)
        self._configure()

    async def enforce_limits(self) -> None:
        """Remove what the configuration no longer allows. Raises ApiError if that cannot be written."""
        await self._slices.remove(self.log, partial(self.log.enforce, STEP_RECORDS))
        self.on_removed()
        self._removing_unneeded.start()
        await self.settled()

    async def settled(self) -> None:
        """Wait until messages that have expired, or that no consumer needs, are removed."""
        await self._removing_unneeded.finished()
        await self._expiry.finished()

    def _limit(self, *, at_once: bool = True) -> None:
        config = self.config
        self.log.configure(
            max_msgs=config.max_msgs,
            max_bytes=config.max_bytes,
            max_msgs_per_subject=config.max_msgs_per_subject,
            discard_new=config.discard == "new",
            discard_new_per_subject=config.discard_new_per_subject,
            compression=config.compression,
            at_once=at_once,
        )

    def _warn(self, line: str) -> None:
        self.jetstream.logger.warn(f"Stream {self.name!r}: {line}")

    def _on_stuck(self, error: StuckError) -> None:
        """Messages that should be removed stay, so the operator must be informed."""
        self.jetstream.logger.error(f"Stream {self.name!r}: messages cannot be removed: {error}")

    def _configure(self) -> None:
        config, sink, domain = self.config, self.sink, self.jetstream.domain
        domain_field = f',"domain":{_json(domain)}' if domain else ""
        sink.ack_prefix = f'{{"stream":{_json(self.name)}{domain_field},"seq":'.encode()
        sink.ack_suffix = b""
        sink.max_msg_size = config.max_msg_size
        sink.no_ack = config.no_ack
        sink.duplicates.length = config.duplicate_window
        self.ingest.configure()
        sink.direct = not (self.ingest.needs_every_message or config.sealed)
        self._expiry.configure(0 if has_own_ages(config) else config.max_age)
        self.serve_direct_gets()

    def serve_direct_gets(self) -> None:
        """For itself, and for its origin once it is current: earlier, a mirror would answer 404 too often."""
        config = self.config
        served = {self.name} if config.allow_direct else set()
        if config.mirror and config.mirror_direct and self.ingest.is_mirror_ready:
            served.add(config.mirror.name)
        self._direct_get.serve(served)

    def subscribe(self) -> Work[None]:
        """Accept messages of its subjects, and of no others. The subjects are the ids of subscriptions."""
        yield  # this alone takes milliseconds with thousands of subjects
        wanted = {encode(subject) for subject in self.config.subjects}
        for index, subject in enumerate(set(self.sink.subscriptions) - wanted):
            if index % STEP_MESSAGES == 0:
                yield
            self.sink.unsubscribe(subject, -1)
        for index, subject in enumerate(wanted - set(self.sink.subscriptions)):
            if index % STEP_MESSAGES == 0:
                yield
            self.sink.subscribe(subject, None, subject)

    # -- messages come and go

    def on_publish(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        self.ingest.on_publish(subject, reply, headers, payload)

    def on_traced(
        self, subject: bytes, reply: bytes, headers: bytes, payload: bytes, trace: MessageTrace
    ) -> None:
        self.ingest.on_traced(subject, reply, headers, payload, trace)

    def on_no_memory(self, reply: bytes) -> None:
        """A message could not be accepted at all."""
        error = api_error("stream_store_failed", err=NO_MEMORY)
        self.sink.answer(reply, encode_error(self.name, error))

    def on_store_failure(self, reply: bytes, failure: str) -> None:
        """A message is not on disk: its publisher gets an error."""
        error = api_error("stream_store_failed", err=failure)
        answer = {"error": error.body, "stream": self.name, "seq": 0}
        self.account.client.publish(reply, msgspec.json.encode(answer))

    def after_commit(self) -> None:
        self.ingest.after_commit()
        if self._retention.has_unchecked:
            self._removing_unneeded.start()
        self._expiry.arm()
        self._removed_messages.notice()
        is_waking = bool(self._to_wake)
        self._to_wake.update(dict.fromkeys(self.consumers.values()))
        if not is_waking:
            self._wake_consumers()

    def _wake_consumers(self) -> None:
        """Wake some of them, and the rest after other clients have had a turn: there may be thousands."""
        for consumer in list(islice(self._to_wake, STEP_CONSUMERS)):
            del self._to_wake[consumer]
            consumer.wake()
        if self._to_wake:
            self.later(self._wake_consumers)

    def later(self, action: Callable[[], object]) -> None:
        """Run it at the end of the tick, when it may publish and subscribe."""
        self.jetstream.hub.defer(action)
        self.jetstream.hub.flush_soon()

    def on_acknowledged(self, seq: int) -> None:
        """A consumer is done with a message; it is removed together with others at the end of the tick."""
        if not self._acknowledged:
            self.later(self._removing_acknowledged.start)
        self._acknowledged.append(seq)

    def _remove_acknowledged(self) -> bool:
        """Remove some of them; returns whether those were all."""
        waiting = self._acknowledged
        seqs = list(islice(waiting, STEP_MESSAGES))
        if self.is_started:
            self._retention.on_acknowledged(seqs)  # if that fails, it is tried again
        for _ in seqs:
            waiting.popleft()
        return not waiting

    def on_consumer_gone(self) -> None:
        """A consumer was deleted, or needs other messages than before."""
        if self.is_started:
            self._retention.check_all()
            self._removing_unneeded.start()

    def on_damaged_consumer_gone(self, name: str) -> None:
        """The damaged consumer was deleted or re-created: only what the other consumers need is needed."""
        self.damaged_consumers.discard(name)
        self.on_consumer_gone()

    def _remove_unneeded(self) -> bool:
        return not self.is_started or self._retention.check(STEP_MESSAGES)

    def on_removed(self) -> None:
        """Messages were removed by limits, expiry or a delete."""
        self._removed_messages.notice()

    def on_purged(self) -> None:
        """A rollup removed earlier messages."""
        self.later(self._notify_of_purge)

    def _notify_of_purge(self) -> None:
        self._slices.add(self._forgetting_purged())

    def _forgetting_purged(self) -> Step:
        consumers = list(self.consumers.values())
        return steps_of(chain.from_iterable(consumer.on_purge() for consumer in consumers))

    async def purge(self, *, subject: str = "", seq: int = 0, keep: int = 0) -> int:
        """Returns how many messages were removed. Raises ApiError."""
        try:
            return await purge(self._slices, self.log, subject=subject, seq=seq, keep=keep)
        finally:
            await self._slices.run(self._forgetting_purged())

    async def committed(self) -> None:
        """Wait until all changes so far are on disk. Raises ApiError if they cannot be written."""
        self.log.commit()
        if failure := await outcome(self.log.when_committed):
            raise api_error("stream_store_failed", err=failure)

    async def erased(self) -> None:
        """Wait until the texts of deleted messages are overwritten. Raises ApiError if that fails."""
        if failure := await outcome(self.log.when_erased):
            self._erase_later()
            raise api_error("stream_msg_delete_failed", err=f"message removed but not erased: {failure}")

    def _erase_later(self) -> None:
        if self._erasing is None:
            self._erasing = asyncio.get_running_loop().call_later(ERASE_SECONDS, self._erase_again)

    def _erase_again(self) -> None:
        self._erasing = None
        if self.is_started and not self.log.erase_again():
            self._erase_later()

    # -- state and info

    def state(self, *, deleted: msgspec.Raw | None = None) -> StreamState:
        log = self.log
        return StreamState(
            messages=log.count,
            bytes=log.byte_count,
            first_seq=log.first_seq,
            first_ts=format_time(log.first_time if log.count else 0),
            last_seq=log.last_seq,
            last_ts=format_time(log.last_time),
            num_subjects=log.num_subjects,
            num_deleted=log.num_deleted,
            deleted=deleted,
            consumer_count=len(self.consumers),
        )

    def info(self, *, with_server: bool = True, with_cluster: bool = False) -> StreamInfo:
        jetstream, config = self.jetstream, self.config
        if with_server:
            config = msgspec.structs.replace(config, metadata=with_server_metadata(config.metadata))
        return StreamInfo(
            config=config,
            created=format_time(self.created),
            state=self.state(),
            domain=jetstream.domain,
            cluster=ClusterInfo(leader=jetstream.server_name) if with_cluster else None,
            mirror=self.ingest.mirror_info(),
            sources=self.ingest.sources_info() or [],
            ts=format_time(jetstream.now()),
        )


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()
