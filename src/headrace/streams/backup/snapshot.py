"""A snapshot: one stream as an archive, while messages are published.

It has the state of one moment: the last sequence is fixed when the request is answered, and nothing above
it is in the archive. Messages are read later, some in each turn of the event loop. Those that are removed
before their turn comes are missing, as they would be in a snapshot that began later; no sequence changes.

The loop reads the log, which it owns. Before that, a thread reads the file that the next messages are in,
so that the loop finds it in the page cache; compressing happens in a thread, too. What is in memory at any
time is a part of about 256 KiB, and the chunks that the receiver has not acknowledged.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from headrace.engine.streams.archive import MAGIC, Extract, encode_document
from headrace.engine.streams.s2 import STREAM_HEAD, Corrupt, compress
from headrace.streams.backup.documents import (
    CONSUMER_PREFIX,
    STATE_NAME,
    SnapshotRequest,
    encode_consumer,
    encode_state,
)
from headrace.streams.backup.sender import ChunkSender, ReceiverLeft
from headrace.streams.consumers.consumer import Consumer
from headrace.streams.consumers.on_disk.state import snapshot, snapshot_of_many
from headrace.streams.errors import ApiError
from headrace.streams.files import in_thread
from headrace.streams.formats import format_time
from headrace.streams.slices import STEP_RECORDS
from headrace.streams.stream import Stream

PART_BYTES = 256 * 1024
STEP_BYTES = 64 * 1024
WARMING_BYTES = 1024 * 1024


class Unavailable(Exception):
    """The stream cannot be read to the end."""


class Snapshot:
    """A snapshot of the stream as it is now."""

    def __init__(self, stream: Stream, asked: SnapshotRequest, client: dict[str, Any]) -> None:
        self._stream = stream
        self._asked = asked
        self._client = client
        self._began = stream.jetstream.now()
        self.state = stream.state()
        # Consumers that other streams read through are re-created when needed, and are not part of the
        # stream.
        consumers = [one for one in stream.consumers.values() if not one.config.direct]
        self._consumers = [] if asked.no_consumers else consumers

    def announce(self) -> None:
        account, name = self._stream.account, self._stream.name
        account.publish_advisory(
            f"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_CREATE.{name}",
            "snapshot_create",
            {"stream": name, "state": self.state, "client": self._client},
        )

    async def run(self) -> None:
        """Send it, and report how that ended."""
        self.announce()
        asked, stream = self._asked, self._stream
        sender = ChunkSender(
            stream.account.client,
            stream.name,
            asked.deliver_subject,
            chunk_size=asked.chunk_size,
            window_size=asked.window_size,
        )
        failure = ""
        try:
            await sender.begin()
            await sender.send(STREAM_HEAD)
            async for part in self._parts():
                await sender.send(await in_thread(compress, part))
            sender.end()
        except ReceiverLeft as error:
            failure = str(error)
            sender.end(error.status)
        except (Unavailable, Corrupt, OSError, ApiError) as error:
            failure = str(error)
            sender.end(f"500 {' '.join(failure.split())}")
        finally:
            sender.close()
        self._report(failure)

    async def _parts(self) -> AsyncIterator[bytes]:
        """The archive, not compressed."""
        state, now = self.state, self._began
        body = encode_state(state, len(self._consumers))
        yield MAGIC + encode_document(STATE_NAME, now, body)
        for consumer in self._consumers:
            name = CONSUMER_PREFIX + consumer.name.encode()
            yield encode_document(name, now, await self._encode(consumer))
        await self._stream.committed()  # what the state counts has to be on disk before it is read
        if self._stream.log.last_seq < state.last_seq:
            raise Unavailable("messages could not be written")
        extract = Extract(self._stream.log, state.last_seq)
        warmed = None
        while not extract.is_done:
            file = extract.file
            if file is not None and file != warmed:
                await in_thread(_warm, file)
                warmed = file
            yield await self._read(extract)
        yield encode_document(b"", 0, b"")

    async def _encode(self, consumer: Consumer) -> bytes:
        ledger = consumer.core.ledger
        slowly = snapshot_of_many(ledger, self._stream.jetstream.slices)
        state = snapshot(ledger) if slowly is None else await slowly
        return await in_thread(encode_consumer, consumer.name, consumer.config, state, self.state.last_seq)

    async def _read(self, extract: Extract) -> bytes:
        parts: list[bytes] = []

        def step() -> bool:
            if not self._stream.is_started:
                raise Unavailable("the stream was deleted, or the server stops")
            parts.append(extract.next(STEP_BYTES, STEP_RECORDS))
            return extract.is_done or sum(map(len, parts)) >= PART_BYTES

        await self._stream.jetstream.slices.run(step, progress=lambda: extract.count)
        return b"".join(parts)

    def _report(self, failure: str) -> None:
        stream = self._stream
        account, name, logger = stream.account, stream.name, stream.jetstream.logger
        now = stream.jetstream.now()
        fields = {
            "stream": name,
            "start": format_time(self._began),
            "end": format_time(now),
            "client": self._client,
        }
        if failure:
            fields["error"] = failure
            logger.warn(f"Snapshot for stream '{account.name} > {name}' failed: {failure}")
        else:
            logger.info(
                f"Completed snapshot of {self.state.bytes:,} bytes for stream '{account.name} > {name}'"
            )
        account.publish_advisory(
            f"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.{name}", "snapshot_complete", fields
        )


def _warm(path: str) -> None:
    """Read a file, so that it is in the page cache. It may be gone by now, replaced by another one."""
    buffer = bytearray(WARMING_BYTES)
    with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
