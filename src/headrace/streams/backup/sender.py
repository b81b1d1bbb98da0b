"""Sends an archive as messages, no faster than the receiver acknowledges them.

Every full chunk has a reply subject, `$JS.SNAPSHOT.ACK.<stream>.<id>.<bytes>.<number>`; any message to it
is an acknowledgement and makes room for another chunk. The last chunk has none. The end is an empty
message; its status says how it ended. A receiver that acknowledges nothing for five seconds, or that
unsubscribes, has left.
"""

from __future__ import annotations

import asyncio

from headrace.broker.ids import random_id
from headrace.broker.internal import InternalClient
from headrace.engine.core.sinks import InboxMessage

DEFAULT_CHUNK = 128 * 1024
LARGEST_CHUNK = 1024 * 1024
DEFAULT_WINDOW = 8 * 1024 * 1024
LARGEST_WINDOW = 32 * 1024 * 1024
SMALLEST = 1024
ACKNOWLEDGEMENT_SECONDS = 5.0
INTEREST_SECONDS = 2.0


class ReceiverLeft(Exception):
    """`status` is what the last message says, just in case."""

    def __init__(self, reason: str, status: str) -> None:
        super().__init__(reason)
        self.status = status


class ChunkSender:
    """`begin`, `send` as often as needed, `end`; `close` in any case."""

    def __init__(
        self, client: InternalClient, stream: str, subject: str, *, chunk_size: int, window_size: int
    ) -> None:
        self._client = client
        self._subject = subject.encode()
        self._acks = f"$JS.SNAPSHOT.ACK.{stream}.{random_id()}"
        self._chunk = min(max(chunk_size or DEFAULT_CHUNK, SMALLEST), LARGEST_CHUNK)
        window = min(max(window_size or DEFAULT_WINDOW, SMALLEST), LARGEST_WINDOW)
        self._most = self._room = max(window // self._chunk, 1)
        self._waiting = bytearray()
        self._sent = 0
        self._is_gone = False
        self._news = asyncio.Event()
        self._handle = client.subscribe(f"{self._acks}.>".encode(), self._on_acknowledgement)
        client.watch_interest(self._subject, self._on_interest)

    async def begin(self) -> None:
        """Give the receiver a moment to subscribe.

        The nats tool subscribes after it gets the answer, on a subject that its wildcard for all answers also
        matches: messages that come earlier would get lost there. So interest from that wildcard does not
        count.
        """
        if not self._client.has_subscriber(self._subject):
            await self._wait(INTEREST_SECONDS)
            self._is_gone = False

    async def send(self, data: bytes) -> None:
        """Raises ReceiverLeft."""
        self._waiting += data
        while len(self._waiting) >= self._chunk:
            while self._room <= 0 and not self._is_gone:
                if not await self._wait(ACKNOWLEDGEMENT_SECONDS):
                    raise ReceiverLeft("no flow response", "408 No Flow Response")
            if self._is_gone:
                raise ReceiverLeft("no interest", "408 No Interest")
            self._room -= 1
            self._sent += 1
            chunk = bytes(self._waiting[: self._chunk])
            del self._waiting[: self._chunk]
            reply = f"{self._acks}.{len(chunk)}.{self._sent}".encode()
            self._client.publish(self._subject, chunk, reply=reply)
            await asyncio.sleep(0)

    def end(self, failure: str = "") -> None:
        """`failure` is a status line, such as `500 what happened`."""
        if not failure and self._waiting:
            self._client.publish(self._subject, bytes(self._waiting))
        # As in nats-server, an archive that fits into one chunk ends without a status.
        status = failure or ("204" if self._sent else "")
        headers = f"NATS/1.0 {status}\r\n\r\n".encode() if status else b""
        self._client.publish(self._subject, headers=headers)

    def close(self) -> None:
        self._client.unsubscribe(self._handle)
        self._client.unwatch_interest(self._subject, self._on_interest)

    async def _wait(self, seconds: float) -> bool:
        """Whether anything happened in time."""
        self._news.clear()
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _on_acknowledgement(self, message: InboxMessage) -> None:
        self._room = min(self._room + 1, self._most)
        self._news.set()

    def _on_interest(self, _has_any: bool) -> None:
        self._is_gone = not self._client.has_subscriber(self._subject)
        self._news.set()
