"""A restore: an archive that arrives in chunks becomes a stream, all of it or nothing.

Each chunk is answered when it is stored, with an empty message; an empty chunk is the end, and is answered
when the stream exists and is on disk. Until then nobody sees it (staging.py). If something is wrong with the
archive, what was stored is removed at once; as in nats-server, the chunks that follow are answered as
before, and the last answer says what was wrong. A sender that is silent for five seconds has left.

Chunks are expanded in a thread, a block at a time, and stored in slices. What is in memory is bounded:
chunks that wait, a block of up to 4 MiB, an unfinished message, and the state of consumers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.broker.ids import random_id
from headrace.engine.core.sinks import InboxMessage
from headrace.engine.streams.archive import ArchiveReader
from headrace.engine.streams.s2 import Corrupt, Expander
from headrace.streams.api.dispatch import TYPE_PREFIX
from headrace.streams.api.stream_requests import check_new
from headrace.streams.backup.documents import (
    CONSUMER_PREFIX,
    STATE_NAME,
    ArchivedState,
    decode_consumer,
    decode_state,
)
from headrace.streams.backup.staging import RestoredConsumer, Staging
from headrace.streams.config import StreamConfig
from headrace.streams.consumers.create import check_restored
from headrace.streams.consumers.on_disk.directory import ConsumerMeta
from headrace.streams.errors import ApiError, StoreError, api_error
from headrace.streams.files import in_thread
from headrace.streams.formats import format_time
from headrace.streams.slices import STEP_RECORDS
from headrace.streams.stream import Stream

if TYPE_CHECKING:
    from headrace.streams.jetstream_account import JetStreamAccount

STALL_SECONDS = 5.0
MOST_WAITING_BYTES = 64 * 1024 * 1024
CHUNK_OVERHEAD = 512
PART_BYTES = 256 * 1024
LARGEST_DOCUMENT = 64 * 1024 * 1024
MOST_CONSUMER_BYTES = 256 * 1024 * 1024
REFUSALS = (Corrupt, ApiError, StoreError, OSError)
"""Why the restore failed: the archive, a rule, or the disk."""


class Restore:
    """`subject` is where the chunks go."""

    def __init__(self, account: JetStreamAccount, config: StreamConfig, client: dict[str, Any]) -> None:
        self._account = account
        self._config = config
        self._client = client
        self._began = account.jetstream.now()
        self._size = 0
        self._chunks: asyncio.Queue[InboxMessage] = asyncio.Queue()
        self._waiting_bytes = 0
        self._is_overrun = False
        self._is_ended = False
        self._expander = Expander()
        self._reader = ArchiveReader()
        self._staging: Staging | None = None
        self._state: ArchivedState | None = None
        self._consumers: list[RestoredConsumer] = []
        self._consumer_bytes = 0
        self._failure: Exception | None = None
        self.subject = f"$JS.SNAPSHOT.RESTORE.{config.name}.{random_id()}"
        self._handle = account.client.subscribe(self.subject.encode(), self._on_chunk)

    def _on_chunk(self, message: InboxMessage) -> None:
        """A sender that does not wait for answers is refused: each chunk that waits uses memory."""
        is_first_end = not message.payload and not self._is_ended
        if self._waiting_bytes > MOST_WAITING_BYTES and not is_first_end:
            self._is_overrun = True
            return
        self._is_ended = self._is_ended or is_first_end
        self._waiting_bytes += len(message.payload) + CHUNK_OVERHEAD
        self._chunks.put_nowait(message)

    async def run(self) -> None:
        name, account = self._config.name, self._account
        self._advise("RESTORE_CREATE", "restore_create", {})
        reply = b""
        stream = None
        try:
            reply = await self._receive()
            stream = await self._publish()
        except TimeoutError:
            account.jetstream.logger.warn(f"restore for stream '{account.name} > {name}' is stalled")
            return
        finally:
            account.client.unsubscribe(self._handle)
            if self._staging is not None:
                await self._staging.discard()
        self._report(reply, stream)

    def _advise(self, subject: str, kind: str, fields: dict[str, Any]) -> None:
        name = self._config.name
        self._account.publish_advisory(
            f"$JS.EVENT.ADVISORY.STREAM.{subject}.{name}",
            kind,
            {"stream": name, **fields, "client": self._client},
        )

    def _report(self, reply: bytes, stream: Stream | None) -> None:
        account, name, logger = self._account, self._config.name, self._account.jetstream.logger
        times = {"start": format_time(self._began), "end": format_time(account.jetstream.now())}
        self._advise("RESTORE_COMPLETE", "restore_complete", {**times, "bytes": self._size})
        answer: dict[str, Any] = {"type": TYPE_PREFIX + "stream_create_response"}
        if stream is not None:
            info = stream.info()
            info.domain = ""
            answer |= msgspec.to_builtins(info)
            logger.info(f"Completed restore of {self._size:,} bytes for stream '{account.name} > {name}'")
        else:
            answer["error"] = _as_answer(self._failure).body
            logger.warn(f"Restore failed for stream '{account.name} > {name}': {self._failure}")
        if reply:
            account.client.answer(reply, msgspec.json.encode(answer))

    # -- chunks

    async def _receive(self) -> bytes:
        """Take all chunks. Returns where to send the final answer. Raises TimeoutError if no more arrive."""
        while True:
            message = await asyncio.wait_for(self._chunks.get(), STALL_SECONDS)
            self._waiting_bytes -= len(message.payload) + CHUNK_OVERHEAD
            if self._is_overrun:
                await self._fail(Corrupt("chunks were sent without waiting for answers"))
            if not message.reply:
                await self._fail(Corrupt("a chunk has no reply subject"))
                return b""
            if not message.payload:
                return message.reply
            self._size += len(message.payload)
            if self._failure is None:
                try:
                    await self._take(message.payload)
                except REFUSALS as error:
                    await self._fail(error)
            self._account.client.answer(message.reply, b"")

    async def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        if self._staging is not None:
            staging, self._staging = self._staging, None
            await staging.discard()

    async def _take(self, chunk: bytes) -> None:
        self._expander.feed(chunk)
        while (part := await in_thread(self._expander.read, PART_BYTES)) is not None:
            self._reader.feed(part)
            if await self._read_documents():
                await self._store_messages()

    async def _read_documents(self) -> bool:
        """Read the state and the consumers. Returns whether all of these are there."""
        while self._state is None or len(self._consumers) < self._state.consumer_count:
            entry = self._reader.document(LARGEST_DOCUMENT)
            if entry is None:
                return False
            name, body = entry
            if self._state is None:
                if name != STATE_NAME:
                    raise Corrupt("expected state.json first")
                self._state = decode_state(body)
            elif name.startswith(CONSUMER_PREFIX):
                await self._add_consumer(name.removeprefix(CONSUMER_PREFIX), body)
            else:
                raise Corrupt(f"expected consumer, found {name[:100]!r}")
        if self._staging is None:
            self._staging = Staging(self._account, self._config)
            await self._staging.open(self._state.first_seq, self._state.bytes)
        return True

    async def _add_consumer(self, encoded: bytes, body: bytes) -> None:
        self._consumer_bytes += len(body)
        if self._consumer_bytes > MOST_CONSUMER_BYTES:
            raise Corrupt("the states of the consumers are too large")
        name = encoded.decode("utf-8", "replace")
        config, state = await in_thread(decode_consumer, name, body)
        try:
            others = {meta.name: meta.config for meta, _ in self._consumers}
            check = check_restored(self._account, self._config, name, config, others)
            await self._account.jetstream.slices.result(check)
        except ApiError as error:
            raise Corrupt(f"failed to add consumer {name!r}: {error.description}") from None
        meta = ConsumerMeta(name, self._account.jetstream.now(), config)
        self._consumers.append((meta, state))

    async def _store_messages(self) -> None:
        staging, reader = self._staging, self._reader
        assert staging is not None
        largest = self._account.jetstream.max_payload
        if self._config.max_msg_size >= 0:
            largest = min(largest, self._config.max_msg_size)
        has_more = True

        def step() -> bool:
            nonlocal has_more
            has_more = reader.store(staging.log, largest, STEP_RECORDS) and not reader.is_complete
            return True

        while has_more:
            await self._account.jetstream.slices.run(step)
            await staging.keep_up()

    # -- the end

    async def _publish(self) -> Stream | None:
        """The stream, if there is one."""
        if self._failure is not None:
            return None
        account = self._account
        try:
            self._check_end()
            assert self._staging is not None
            async with account.jetstream.changing_streams:
                if self._config.name in account.streams:
                    raise api_error("stream_name_exist_restore_failed")
                await account.jetstream.slices.result(check_new(account, self._config))
                stream = await self._staging.publish(self._consumers)
                self._staging = None
            account.announce(stream, "create")
            return stream
        except REFUSALS as error:
            self._failure = error
            return None

    def _check_end(self) -> None:
        if not self._reader.is_complete or not self._expander.is_between_chunks:
            raise Corrupt("backup was truncated")
        assert self._state is not None
        assert self._staging is not None
        if self._state.last_seq > self._staging.log.last_seq:
            self._staging.log.skip(self._state.last_seq + 1)


def _as_answer(failure: Exception | None) -> ApiError:
    """Without the paths of this server, which are in the log."""
    if isinstance(failure, ApiError):
        return failure
    if isinstance(failure, OSError):
        return api_error("stream_restore", err=(failure.strerror or str(failure)).lower())
    if isinstance(failure, StoreError):
        return api_error("stream_restore", err="error creating store for stream")
    return api_error("stream_restore", err=str(failure))
