"""The part of the JetStream API that a benchmark needs: create, inspect and delete streams and consumers."""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from headrace.bench.failure import BenchError
from headrace.bench.wire import open_connections, subscribe_frame
from headrace.client.addresses import Address

ANSWER_SECONDS = 60.0  # deleting a stream of gigabytes takes a while
SETTLE_SECONDS = 60.0
POLL_SECONDS = 0.002
STREAM_NOT_FOUND = 10059


class ApiRefusal(BenchError):
    """An error response of the server, with its number."""

    def __init__(self, text: str, err_code: int) -> None:
        super().__init__(text)
        self.err_code = err_code


@dataclass(frozen=True)
class StreamFacts:
    """What a stream has: `first` and `last` are sequences, `existed` means that it was not created here."""

    name: str
    messages: int
    first: int
    last: int
    existed: bool


class Api:
    """One connection for requests, one at a time."""

    def __init__(self, connection: socket.socket, inbox: bytes, address: Address) -> None:
        self._connection, self._inbox, self._address = connection, inbox, address
        self._lines: IO[bytes] = connection.makefile("rb")

    def request(self, subject: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
        """The response. Raises ApiRefusal for an error, BenchError if there is none."""
        body = b"" if content is None else json.dumps(content).encode()
        self._connection.settimeout(ANSWER_SECONDS)
        frame = b"PUB $JS.API.%b %b %d\r\n%b\r\n" % (subject.encode(), self._inbox, len(body), body)
        try:
            self._connection.sendall(frame)
            answer = self._answer()
        except TimeoutError:
            raise BenchError(f"no answer to $JS.API.{subject} in {ANSWER_SECONDS:.0f} seconds") from None
        if error := answer.get("error"):
            raise ApiRefusal(
                f"{subject}: {error.get('description', error)} ({error.get('err_code', error.get('code'))})",
                error.get("err_code", 0),
            )
        return answer

    def close(self) -> None:
        self._lines.close()

    def _answer(self) -> dict[str, Any]:
        while line := self._lines.readline():
            if line.startswith(b"PING"):
                self._connection.sendall(b"PONG\r\n")
            elif line.startswith(b"-ERR"):
                raise BenchError(f"the server refused: {line.decode(errors='replace').strip()}")
            elif line.startswith((b"MSG ", b"HMSG ")):
                return self._content(line)
        raise BenchError("the server closed the connection")

    def _content(self, line: bytes) -> dict[str, Any]:
        payload = self._lines.read(int(line.split()[-1]) + 2)
        if line.startswith(b"HMSG "):
            status = payload.split(b"\r\n", 1)[0].decode(errors="replace")
            if " 503" in status:
                raise BenchError(
                    f"the server at {self._address} has no JetStream",
                    hint="start it with -js, or let --start do it",
                )
            raise BenchError(f"the server answered with {status}")
        try:
            document: dict[str, Any] = json.loads(payload)
        except ValueError:
            raise BenchError(f"the server answered with {payload[:60]!r}") from None
        return document


@contextmanager
def open_api(address: Address) -> Iterator[Api]:
    inbox = f"_INBOX.headracebench.{secrets.token_hex(6)}".encode()
    with open_connections(address, [subscribe_frame(inbox)]) as (connection,):
        api = Api(connection, inbox, address)
        try:
            yield api
        finally:
            api.close()


def stream_facts(api: Api, name: str) -> StreamFacts | None:
    """None if there is no such stream."""
    try:
        return _facts(name, api.request(f"STREAM.INFO.{name}"), existed=True)
    except ApiRefusal as error:
        if error.err_code == STREAM_NOT_FOUND:
            return None
        raise


@contextmanager
def stream_for_run(
    address: Address,
    name: str,
    subject: str,
    storage: str,
    *,
    keep: bool = False,
    config: Mapping[str, Any] | None = None,
) -> Iterator[tuple[Api, StreamFacts]]:
    """The stream of that name, created if there is none, and then deleted afterwards."""
    with open_api(address) as api:
        facts = stream_facts(api, name) or _create(api, name, subject, storage, config or {})
        try:
            yield api, facts
        finally:
            if not keep and not facts.existed:
                _delete(address, name)


def create_consumer(api: Api, stream: str, name: str, acks: str, max_ack_pending: int) -> None:
    config: dict[str, Any] = {"durable_name": name, "ack_policy": acks, "deliver_policy": "all"}
    if acks != "none":
        config["max_ack_pending"] = max_ack_pending
    api.request(
        f"CONSUMER.CREATE.{stream}.{name}",
        {"stream_name": stream, "config": config | {"name": name}, "action": "create"},
    )


def delete_consumer(api: Api, stream: str, name: str) -> None:
    api.request(f"CONSUMER.DELETE.{stream}.{name}")


def await_acknowledged(api: Api, stream: str, name: str, messages: int) -> None:
    """Wait until the server has processed all acknowledgements. Raises BenchError if it does not."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        info = api.request(f"CONSUMER.INFO.{stream}.{name}")
        open_messages = info.get("num_ack_pending", 0)
        if open_messages == 0 and info["delivered"]["consumer_seq"] >= messages:
            return
        if time.monotonic() > deadline:
            raise BenchError(f"{open_messages:,} acknowledgements of {messages:,} did not count")
        time.sleep(POLL_SECONDS)


def _create(api: Api, name: str, subject: str, storage: str, more: Mapping[str, Any]) -> StreamFacts:
    config = {
        "name": name,
        "subjects": [subject],
        "storage": storage,
        "retention": "limits",
        "num_replicas": 1,
        **more,
    }
    return _facts(name, api.request(f"STREAM.CREATE.{name}", config), existed=False)


def _delete(address: Address, name: str) -> None:
    """On a new connection: that of the run may be broken. If the server is gone, so is the stream."""
    try:
        with open_api(address) as api:
            api.request(f"STREAM.DELETE.{name}")
    except BenchError:
        pass


def _facts(name: str, answer: dict[str, Any], *, existed: bool) -> StreamFacts:
    try:
        state = answer["state"]
        return StreamFacts(name, state["messages"], state["first_seq"], state["last_seq"], existed)
    except (KeyError, TypeError):
        raise BenchError(f"the server's answer about stream {name} has no state") from None
