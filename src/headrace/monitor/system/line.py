"""The requests of the system account that wait for their answers.

Answers are made one after another in a task, a piece in each turn of the event loop, so that no request holds
it however large its answer. Accounts take turns, and each has a limit: who asks more, faster than it is
answered, gets no answer to some requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections import deque
from collections.abc import Callable

import msgspec

from headrace.accounts.account import Account
from headrace.broker.broker import Broker
from headrace.engine.core.sinks import InboxMessage
from headrace.http.peer import collect
from headrace.http.turns import Turns
from headrace.monitor.documents import Document, encode_compact, encode_document, encode_value
from headrace.monitor.system.answers import Unanswered
from headrace.streams import headers

MAX_WAITING = 1000
MAX_WAITING_BYTES = 4 * 1024 * 1024
ACCEPT_ENCODING = b"Accept-Encoding"
CONTENT_ENCODING = b"Content-Encoding"
GZIP_FORMAT = 31  # of zlib: with the header of a file
TOO_LARGE = {"code": 500, "description": "the answer would be larger than max_pending; ask for less of it"}


class Waiting(msgspec.Struct, frozen=True):
    make: Callable[[], Document]
    message: InboxMessage


class Queue(msgspec.Struct):
    """Of one account."""

    account: Account
    requests: deque[Waiting] = msgspec.field(default_factory=deque)
    size: int = 0


class TooLarge(Exception):
    """Nobody could receive it."""


class Line:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._queues: dict[str, Queue] = {}
        self._turns = Turns()
        self._task: asyncio.Task[None] | None = None

    def add(self, account: Account, make: Callable[[], Document], message: InboxMessage) -> None:
        """Answer in this account. If too many wait, the request is dropped."""
        queue = self._queues.setdefault(account.name, Queue(account))
        if len(queue.requests) >= MAX_WAITING or queue.size >= MAX_WAITING_BYTES:
            return
        queue.requests.append(Waiting(make, message))
        queue.size += len(message.payload)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        self._queues.clear()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _work(self) -> None:
        """One request of each account, until none is left."""
        try:
            while self._queues:
                for name, queue in list(self._queues.items()):
                    waiting = queue.requests.popleft()
                    queue.size -= len(waiting.message.payload)
                    if not queue.requests:
                        del self._queues[name]
                    await self._answer(queue.account, waiting)
        finally:
            self._task = None

    async def _answer(self, account: Account, waiting: Waiting) -> None:
        message = waiting.message
        try:
            async with self._turns.next():
                document = waiting.make()
            encoding = _choose_encoding(message.headers) if _has_data(document) else b""
            payload = await self._encode(document, encoding)
        except Unanswered:
            return
        except TooLarge:
            encoding = b""
            payload = encode_value({"server": self._broker.stamp.next(), "data": None, "error": TOO_LARGE})
        except Exception as error:  # a bug must not end the answers to others
            self._broker.on_bug(error)
            return
        if not message.reply:
            return
        block = headers.append(b"", CONTENT_ENCODING, encoding) if encoding else b""
        hub = self._broker.hub
        hub.publish(account.interest, message.reply, payload, headers=block, past_shadows=True)
        hub.flush_soon()

    async def _encode(self, document: Document, encoding: bytes) -> bytes:
        """Raises TooLarge."""
        compressor = zlib.compressobj(wbits=GZIP_FORMAT) if encoding == b"gzip" else None
        pieces, parts, size = iter(collect(encode_document(document, encode_compact))), [], 0
        while True:
            async with self._turns.next():
                piece = next(pieces, None)
                if piece is None:
                    break
                parts.append(compressor.compress(piece) if compressor else piece)
            size += len(piece)
            if size > self._broker.options.max_pending:
                raise TooLarge
        return b"".join(parts) + (compressor.flush() if compressor else b"")


def _has_data(document: Document) -> bool:
    """Errors, and answers outside of the usual envelope, are never compressed."""
    return not isinstance(document, dict) or document.keys() == {"server"}


def _choose_encoding(block: bytes) -> bytes:
    """Compressed if that was asked for, and is gzip. As in nats-server, snappy would be preferred."""
    accepted = headers.text(block, ACCEPT_ENCODING).lower()
    if not accepted:
        return b""
    if b"snappy" in accepted or b"s2" in accepted:
        return b"identity"
    return b"gzip" if b"gzip" in accepted else b"identity"
