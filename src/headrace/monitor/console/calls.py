"""The in-process client: what a user asks for is published in its account, like any client's message.

Requests of the JetStream API take the way of all requests, so they have the same checks, the same order and
the same errors.
"""

from __future__ import annotations

import asyncio
import secrets
from http import HTTPStatus
from typing import Any

import msgspec

from headrace.accounts.account import Account
from headrace.broker.broker import Broker
from headrace.broker.internal import InternalClient
from headrace.engine.core.sinks import InboxMessage
from headrace.monitor.console.refusal import Refusal, bad_request
from headrace.monitor.console.viewer import Viewer
from headrace.subjects.grammar import encode, is_valid_publish_subject

API_SECONDS = 30.0
MAX_SUBJECT_BYTES = 4096
MAX_HEADERS = 100
HEAD = b"NATS/1.0\r\n"

HeaderList = list[tuple[str, str]]


def encode_headers(headers: HeaderList) -> bytes:
    """Raises Refusal for what would not arrive as it was typed."""
    if not headers:
        return b""
    if len(headers) > MAX_HEADERS:
        raise bad_request(f"At most {MAX_HEADERS} headers are allowed.")
    lines = []
    for name, value in headers:
        if not name or any(not "!" <= character <= "~" or character == ":" for character in name):
            raise bad_request("A header name has printable ASCII characters, and no colon or space.")
        if any(character in "\r\n\0" for character in value):
            raise bad_request(f"The value of the header {name} must be on one line.")
        lines.append(f"{name}: {value}\r\n".encode(errors="replace"))
    return HEAD + b"".join(lines) + b"\r\n"


def decode_headers(block: bytes) -> HeaderList:
    """As they were sent; the status of the first line, if it has one, is called `Status`."""
    first, *lines = block.decode("utf-8", "replace").split("\r\n")
    status = first.removeprefix("NATS/1.0").strip()
    found = [("Status", status)] if status else []
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            found.append((name, value.strip()))
    return found


class Calls:
    """One client in every account that was used so far."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._clients: dict[str, InternalClient] = {}

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _client(self, account: Account) -> InternalClient:
        client = self._clients.get(account.name)
        if client is None or client.interest is not account.interest:  # a reload may re-create an account
            client = InternalClient(self._broker.hub, account.interest, self._broker.on_bug)
            self._clients[account.name] = client
        return client

    def _check(self, viewer: Viewer, account: Account, subject: str, payload: bytes, headers: bytes) -> None:
        if not is_valid_publish_subject(subject) or len(encode(subject)) > MAX_SUBJECT_BYTES:
            raise bad_request("A subject is dot-separated tokens, without spaces and wildcards.")
        if any(character < " " or character == "\x7f" for character in subject):
            raise bad_request("A subject has no control characters.")
        viewer.check_publish(subject)
        limits = (self._broker.options.max_payload, account.options.limits.max_payload)
        limit = min(limit for limit in limits if limit >= 0)
        if len(payload) + len(headers) > limit:
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"Maximum Payload Violation: the limit is {limit} bytes."
            )

    def publish(
        self, viewer: Viewer, account: Account, subject: str, payload: bytes, headers: bytes = b""
    ) -> bool:
        """Whether anybody got it. Raises Refusal."""
        self._check(viewer, account, subject, payload, headers)
        return self._client(account).publish(encode(subject), payload, headers=headers)

    async def request(
        self,
        viewer: Viewer,
        account: Account,
        subject: str,
        payload: bytes,
        headers: bytes = b"",
        *,
        seconds: float = API_SECONDS,
    ) -> InboxMessage:
        """The answer. Raises Refusal: nobody answers, or not in time, or the user may not ask."""
        self._check(viewer, account, subject, payload, headers)
        client = self._client(account)
        answered: asyncio.Future[InboxMessage] = asyncio.get_running_loop().create_future()

        def on_answer(message: InboxMessage) -> None:
            if not answered.done():
                answered.set_result(message)

        inbox = f"_INBOX.{secrets.token_hex(11)}".encode()
        handle = client.subscribe(inbox, on_answer)
        try:
            if not client.publish(encode(subject), payload, reply=inbox, headers=headers):
                raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "No responders: nobody subscribes to it.")
            async with asyncio.timeout(seconds):
                return await answered
        except TimeoutError:
            raise Refusal(
                HTTPStatus.GATEWAY_TIMEOUT, f"There was no answer within {seconds:g} seconds."
            ) from None
        finally:
            client.unsubscribe(handle)

    async def api(
        self, viewer: Viewer, account: Account, subject: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        """The fields of the answer of `$JS.API.<subject>`. Raises Refusal with the error of the API."""
        payload = msgspec.json.encode(body) if body else b""
        message = await self.request(viewer, account, f"$JS.API.{subject}", payload)
        return read_answer(message.payload)


def read_answer(payload: bytes) -> dict[str, Any]:
    """The fields of an answer of the API, or of a stream. Raises Refusal with its error."""
    answer = msgspec.json.decode(payload, type=dict[str, Any])
    error = answer.get("error")
    if error:
        code = error.get("code", 500)
        status = HTTPStatus(code) if code in HTTPStatus.__members__.values() else HTTPStatus.BAD_GATEWAY
        raise Refusal(status, error.get("description", "error"), err_code=error.get("err_code", 0))
    return answer
