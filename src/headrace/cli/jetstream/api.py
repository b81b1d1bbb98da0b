"""Requests to the JetStream API, with errors in one line.

run_with_jetstream(target, work)      connects, awaits work(JetStream), and returns the exit code
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import nats.errors

from headrace.cli.jetstream.headers import parse_headers
from headrace.cli.nats_connection import Interrupted, InterruptibleClient, connect
from headrace.cli.target import Target
from headrace.client.api import parse_time
from headrace.client.errors import ApiError
from headrace.errors import HeadraceError

PREFIX = "$JS.API"
REQUEST_SECONDS = 5.0
INTERRUPTED = 130

STREAM_NOT_FOUND = 10059
CONSUMER_NOT_FOUND = 10014
MESSAGE_NOT_FOUND = 10037
WRONG_LAST_SEQUENCE = frozenset({10071, 10164})
NOT_ENABLED = frozenset({10039, 10076})


class NoJetStreamError(HeadraceError):
    """The server has no JetStream, or not for this account."""


@dataclass(frozen=True)
class StoredMessage:
    """A message of a stream. `time` is in nanoseconds since 1970; `pending` is how many follow it."""

    subject: str
    data: bytes
    headers: dict[str, str]
    seq: int
    time: int
    pending: int = 0


class JetStream:
    def __init__(self, connection: InterruptibleClient) -> None:
        self.connection = connection

    async def request(self, subject: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer to a request of the API. Raises ApiError, NoJetStreamError, HeadraceError."""
        answer = await self.ask(f"{PREFIX}.{subject}", body)
        return self.decode(answer.data, subject)

    async def ask(self, subject: str, body: dict[str, Any] | None = None) -> Any:
        payload = json.dumps(body).encode() if body is not None else b""
        asked = self.connection.client.request(subject, payload, timeout=REQUEST_SECONDS)
        try:
            return await self.connection.wait_for(asked)
        except nats.errors.NoRespondersError:
            raise self.no_jetstream() from None
        except (TimeoutError, nats.errors.TimeoutError):
            raise HeadraceError(
                f"{self.connection.address} did not answer within {REQUEST_SECONDS:g} s",
                hint="is JetStream ready there?",
            ) from None

    def no_jetstream(self) -> NoJetStreamError:
        return NoJetStreamError(
            f"{self.connection.address} has no JetStream",
            hint="`headrace serve` has it; start headrace-server or nats-server with -js",
        )

    def decode(self, payload: bytes, what: str) -> dict[str, Any]:
        try:
            answer = json.loads(payload)
            if not isinstance(answer, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError) as error:
            raise HeadraceError(f"{self.connection.address}: invalid answer to {what}: {error}") from None
        refusal = answer.get("error")
        if isinstance(refusal, dict):
            description = str(refusal.get("description", "unknown error"))
            number = int(refusal.get("err_code", 0))
            if number in NOT_ENABLED:
                raise self.no_jetstream()
            raise ApiError(
                f"{self.connection.address} says: {description}",
                code=int(refusal.get("code", 0)),
                err_code=number,
                description=description,
            )
        return answer

    # -- streams ------------------------------------------------------------------------------------------

    async def stream(self, name: str) -> dict[str, Any] | None:
        """Its info, or None if there is no such stream."""
        try:
            return await self.request(f"STREAM.INFO.{name}")
        except ApiError as error:
            if error.err_code == STREAM_NOT_FOUND:
                return None
            raise

    async def streams(self, subject: str = "") -> list[dict[str, Any]]:
        """The infos of all streams, those with this subject only if there is one."""
        return await self.pages("STREAM.LIST", "streams", {"subject": subject} if subject else {})

    async def stream_names(self, subject: str = "") -> list[str]:
        return await self.pages("STREAM.NAMES", "streams", {"subject": subject} if subject else {})

    async def pages(self, subject: str, field: str, body: dict[str, Any]) -> list[Any]:
        """All items of a list that the server sends in pages."""
        items: list[Any] = []
        while True:
            answer = await self.request(subject, {**body, "offset": len(items)})
            page = answer.get(field) or []
            items += page
            if not page or len(items) >= int(answer.get("total", 0)):
                return items

    # -- messages -----------------------------------------------------------------------------------------

    async def message(self, info: dict[str, Any], **which: Any) -> StoredMessage | None:
        """One message of a stream: `seq=7`, or `last_by_subj="a.b"`. None if there is none."""
        name = info["config"]["name"]
        if info["config"].get("allow_direct"):
            return await self._direct_message(name, which)
        try:
            found = (await self.request(f"STREAM.MSG.GET.{name}", which))["message"]
        except ApiError as error:
            if error.err_code == MESSAGE_NOT_FOUND:
                return None
            raise
        return StoredMessage(
            subject=found["subject"],
            data=base64.b64decode(found.get("data") or ""),
            headers=parse_headers(base64.b64decode(found.get("hdrs") or "")),
            seq=found["seq"],
            time=parse_time(found["time"]),
        )

    async def _direct_message(self, name: str, which: dict[str, Any]) -> StoredMessage | None:
        """The message itself is the answer, so that a large one fits."""
        answer = await self.ask(f"{PREFIX}.DIRECT.GET.{name}", which)
        headers = dict(answer.headers or {})
        status = headers.get("Status")
        if status == "404":
            return None
        if status is not None:
            raise HeadraceError(f"{self.connection.address} says: {headers.get('Description', status)}")
        return StoredMessage(
            subject=headers.pop("Nats-Subject", ""),
            data=answer.data,
            headers={name: value for name, value in headers.items() if name not in _ADDED},
            seq=int(headers.get("Nats-Sequence", 0)),
            time=parse_time(headers.get("Nats-Time-Stamp", "")),
        )

    async def publish(
        self, subject: str, payload: bytes, headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """The acknowledgement. Raises ApiError if the stream refuses, UsageError if it is too large."""
        connection = self.connection
        inbox = connection.client.new_inbox()
        answers: asyncio.Queue[Any] = asyncio.Queue()
        subscription = await connection.client.subscribe(inbox, cb=answers.put)
        try:
            await connection.publish(subject, payload, inbox, headers)
            answer = await connection.wait_for(answers.get(), REQUEST_SECONDS)
        except TimeoutError:
            raise HeadraceError(
                f"no acknowledgement from {connection.address} within {REQUEST_SECONDS:g} s",
                hint="the message may or may not be stored",
            ) from None
        finally:
            if not connection.client.is_closed:
                await subscription.unsubscribe()
        if not answer.data and (answer.headers or {}).get("Status") == "503":
            raise HeadraceError(f"no stream at {connection.address} stores {subject}")
        return self.decode(answer.data, "a publish")


_ADDED = ("Nats-Stream", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending", "Nats-Last-Sequence")


def run_with_jetstream(target: Target, work: Callable[[JetStream], Awaitable[int | None]]) -> int:
    """The exit code: that of the work, or 130 if it was interrupted."""

    async def main() -> int:
        async with connect(target) as connection:
            try:
                return await work(JetStream(connection)) or 0
            except Interrupted:
                return INTERRUPTED

    return asyncio.run(main())
