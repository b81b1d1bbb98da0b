"""The messages of a stream, in order, without gaps: to the present end, or as they arrive.

A pull consumer without acknowledgements delivers them. Nothing is kept on the server: whatever goes wrong
(the server restarts, the consumer is removed, the connection is lost), a new consumer starts after the last
message that was seen.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import nats.errors

from headrace.cli.jetstream.api import PREFIX, JetStream, StoredMessage
from headrace.cli.nats_connection import explain
from headrace.client.errors import ApiError
from headrace.errors import HeadraceError

NANOSECONDS = 1_000_000_000
EXPIRES_SECONDS = 30
HEARTBEAT_SECONDS = 2
KEPT_SECONDS = 30
RETRY_SECONDS = 0.5
ATTEMPTS = 5
"""How often a read begins again without a message in between."""
UNAVAILABLE = 503

HEARTBEAT = "100"


@dataclass
class Reader:
    """`start` has the fields of a consumer's config that say where to begin, such as `deliver_policy`."""

    jetstream: JetStream
    stream: str
    subject: str
    start: dict[str, Any]
    headers_only: bool = False
    follow: bool = False
    batch: int = 64

    def __post_init__(self) -> None:
        self._last = 0
        self._consumer = ""
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self._inbox = ""

    async def __aiter__(self) -> AsyncIterator[StoredMessage]:
        connection = self.jetstream.connection
        self._inbox = connection.client.new_inbox()
        # A batch is all that can be pending: no limit of nats-py's may drop a message.
        subscription = await connection.client.subscribe(
            self._inbox, cb=self._answers.put, pending_msgs_limit=0, pending_bytes_limit=0
        )
        try:
            async for message in self._messages():
                yield message
        finally:
            if not connection.client.is_closed:
                await subscription.unsubscribe()
                await self._remove_consumer()

    async def _messages(self) -> AsyncIterator[StoredMessage]:
        failures = 0
        while True:
            try:
                pending = await self._create_consumer()
                if not pending and not self.follow:
                    return
                failures = 0 if self.follow else failures
                async for message in self._pulled():
                    failures = 0
                    yield message
                    if not message.pending and not self.follow:
                        return
            except (HeadraceError, nats.errors.Error) as error:
                if not self._may_pass(error) or failures >= ATTEMPTS:
                    raise
            # Without a connection nats-py reconnects, and says so, for as long as the user likes.
            connected = self.jetstream.connection.client.is_connected
            failures = failures + 1 if connected or not self.follow else 0
            await self.jetstream.connection.wait_for(asyncio.sleep(RETRY_SECONDS))

    def _may_pass(self, error: Exception) -> bool:
        """Whether to try again: a server that has just started may not have its streams yet."""
        if isinstance(error, Interruption):
            return True
        if not self.follow or not self._consumer:
            return False
        return error.code == UNAVAILABLE if isinstance(error, ApiError) else True

    async def _create_consumer(self) -> int:
        """How many messages it has for us."""
        config = {
            "ack_policy": "none",
            "replay_policy": "instant",
            "max_deliver": 1,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": KEPT_SECONDS * NANOSECONDS,
            "filter_subject": self.subject,
            "headers_only": self.headers_only,
            **(
                {"deliver_policy": "by_start_sequence", "opt_start_seq": self._last + 1}
                if self._last
                else self.start
            ),
        }
        answer = await self.jetstream.request(
            f"CONSUMER.CREATE.{self.stream}", {"stream_name": self.stream, "config": config}
        )
        self._consumer = answer["name"]
        return int(answer.get("num_pending", 0)) + int(answer.get("delivered", {}).get("consumer_seq", 0))

    async def _pulled(self) -> AsyncIterator[StoredMessage]:
        """Raises Interruption when a new consumer is needed."""
        while not self._answers.empty():
            self._answers.get_nowait()  # of an earlier consumer
        left = 0
        while True:
            if left <= self.batch // 2:
                await self._pull(self.batch - left)
                left = self.batch
            try:
                answer = await self.jetstream.connection.wait_for(
                    self._answers.get(), 2 * HEARTBEAT_SECONDS + 1
                )
            except TimeoutError:
                raise Interruption(self.stream, "no heartbeat") from None
            status = (answer.headers or {}).get("Status")
            if status is None:
                left -= 1
                message = as_stored(answer)
                self._last = message.seq
                yield message
            elif status == "408":
                left = 0  # the request expired
            elif status != HEARTBEAT:
                raise Interruption(self.stream, f"status {status}")

    async def _pull(self, count: int) -> None:
        body: dict[str, Any] = {
            "batch": count,
            "expires": EXPIRES_SECONDS * NANOSECONDS,
            "idle_heartbeat": HEARTBEAT_SECONDS * NANOSECONDS,
        }
        connection = self.jetstream.connection
        subject = f"{PREFIX}.CONSUMER.MSG.NEXT.{self.stream}.{self._consumer}"
        try:
            await connection.client.publish(subject, json.dumps(body).encode(), self._inbox)
        except nats.errors.Error as error:
            raise explain(error, connection.address) from None

    async def _remove_consumer(self) -> None:
        """It would be removed anyway: nobody waits for the answer."""
        if self._consumer and self.jetstream.connection.client.is_connected:
            subject = f"{PREFIX}.CONSUMER.DELETE.{self.stream}.{self._consumer}"
            await self.jetstream.connection.client.publish(subject, b"")


class Interruption(HeadraceError):
    """The consumer does not go on: it, the stream or the connection is gone."""

    def __init__(self, stream: str, reason: str) -> None:
        super().__init__(f"the messages of {stream} do not arrive: {reason}", hint="try again")


def as_stored(message: Any) -> StoredMessage:
    """A delivered message; its reply subject has the numbers, after `$JS.ACK` and perhaps a domain."""
    tokens = message.reply.split(".")
    # $JS.ACK.stream.consumer.delivered.seq.consumer_seq.time.pending, or with domain and account after ACK
    first = 2 if len(tokens) == 9 else 4
    try:
        seq, time, pending = (int(tokens[first + place]) for place in (3, 5, 6))
    except (IndexError, ValueError):
        raise HeadraceError(f"a message without its position: {message.reply!r}") from None
    return StoredMessage(message.subject, message.data, dict(message.headers or {}), seq, time, pending)
