"""The JetStream API: one table of subjects, and what happens around every handler.

A request on `$JS.API.<pattern>` is looked up in the routes, handled, and answered on its reply subject
with a JSON object that has a `type`. A handler returns the fields of its response, or an awaitable of them if
it waits for the disk; it raises ApiError to refuse.

Requests about one stream are handled in order, even while one of them waits for the disk. Waiting requests
use memory, so there is a limit. Beyond it nats-server drops requests; we refuse them. A flood is
handled in slices, so that other clients get a turn in between.

A request that takes very long delays those behind it, so it is logged. When the server stops it gets a few
seconds, and is then cancelled: a stuck stream must not keep a server alive.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.engine.core.sinks import InboxMessage
from headrace.logs import Logger
from headrace.streams import headers
from headrace.streams.errors import ApiError, ErrorBody, api_error, store_error
from headrace.subjects.grammar import decode

if TYPE_CHECKING:
    from headrace.streams.jetstream_account import JetStreamAccount

PREFIX = "$JS.API."
TYPE_PREFIX = "io.nats.jetstream.api.v1."
OVERLOADED = "system_overloaded"
MAX_BYTES_IN_LINE = 64 * 1024 * 1024
LONG_ANSWER = 1024 * 1024
LONG_SECONDS = 10.0
"""How often the log reports a request that is not answered."""
UNCOUNTED_ERROR = "sequence_not_found"
"""Deleting a missing message does not count as an error in nats-server's statistics."""
EMPTY_OBJECT = re.compile(rb"[ \t\r\n]*\{[ \t\r\n]*\}[ \t\r\n]*")
AUDIT_SUBJECT = b"$JS.EVENT.ADVISORY.API"

Body = msgspec.Struct | Mapping[str, Any]
Answer = Body | Awaitable[Body]


class Request(msgspec.Struct):
    """`tokens` are the tokens of the subject that match the wildcards of the pattern."""

    subject: str
    tokens: list[str]
    reply: bytes
    headers: bytes
    payload: bytes
    publisher: object

    @property
    def stream(self) -> str:
        return self.tokens[0] if self.tokens else ""

    @property
    def is_empty(self) -> bool:
        """No body, or an object without fields."""
        return self.payload == b"" or EMPTY_OBJECT.fullmatch(self.payload) is not None

    @property
    def has_object(self) -> bool:
        """Whether the body looks like JSON; where a body is optional, any other text is ignored."""
        return self.payload.lstrip(b" \t\r\n")[:1] in (b"{", b"[")


class Route(msgspec.Struct, frozen=True):
    """`on_error` are the fields that a response has even if the request is refused."""

    pattern: str
    kind: str
    handler: Callable[[Any, Request], Answer]
    on_error: dict[str, Any] = {}
    is_counted: bool = True


class Api:
    """Dispatches the requests of one account."""

    def __init__(
        self,
        account: JetStreamAccount,
        routes: tuple[Route, ...],
        *,
        limit: int,
        audit: Callable[[Request, bytes], None],
    ) -> None:
        self._account = account
        self._client = client = account.client
        self._slices = account.jetstream.slices
        self._logger = account.jetstream.logger
        self._limit = limit
        self._audit = audit
        self._tree = _build_tree(routes)
        self._waiting: deque[tuple[Route, Request]] = deque()
        self._busy: dict[str, deque[tuple[Route, Request]]] = {}
        self._in_line = 0
        self._bytes_in_line = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._scheduled = False
        self._closed = False
        self._handles = [
            client.subscribe(subject.encode(), self.on_message) for subject in _subscriptions(routes)
        ]

    @property
    def in_flight(self) -> int:
        return self._in_line + len(self._tasks)

    async def stop(self, seconds: float) -> list[str]:
        """Accept no more requests, and wait for those in progress. Returns the subjects of abandoned ones."""
        self._closed = True
        for handle in self._handles:
            self._client.unsubscribe(handle)
        self._waiting.clear()
        until = time.monotonic() + seconds
        while self._tasks and time.monotonic() < until:
            await asyncio.wait(self._tasks, timeout=max(until - time.monotonic(), 0))
        given_up = sorted(task.get_name() for task in self._tasks)
        for task in self._tasks:
            task.cancel()
        return given_up

    def on_message(self, message: InboxMessage) -> None:
        subject = decode(message.subject)
        route, tokens = self._find(subject.removeprefix(PREFIX).split("."))
        if route is None:
            return  # as in nats-server, unknown requests are not answered
        request = Request(subject, tokens, message.reply, message.headers, message.payload, message.publisher)
        if self._in_line >= self._limit or self._bytes_in_line > MAX_BYTES_IN_LINE:
            error = api_error("stream_too_many_requests")
            answer = {"type": TYPE_PREFIX + OVERLOADED, "error": error.body}
            self._send(request, msgspec.json.encode(answer), failed=True)
            return
        self._in_line += 1
        self._bytes_in_line += len(request.payload)
        self._waiting.append((route, request))
        self._schedule()

    def _find(self, tokens: list[str]) -> tuple[Route | None, list[str]]:
        node: Any = self._tree
        found: list[str] = []
        for index, token in enumerate(tokens):
            if token in node and token not in ("*", ">"):
                node = node[token]
            elif "*" in node:
                node = node["*"]
                found.append(token)
            elif ">" in node:
                return node[">"][""], [*found, ".".join(tokens[index:])]
            else:
                return None, []
        return node.get(""), found

    # -- the queue

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            self._slices.add(self._step)

    def _step(self) -> bool:
        """Handle one of the waiting requests; returns whether it was the last."""
        if self._waiting:  # empty if the server stops
            route, request = self._waiting.popleft()
            if request.stream in self._busy:
                self._busy[request.stream].append((route, request))
            else:
                self._start(route, request)
        self._scheduled = bool(self._waiting)
        return not self._scheduled

    def _start(self, route: Route, request: Request) -> None:
        self._in_line -= 1
        self._bytes_in_line -= len(request.payload)
        answer = self._handle(route, request)
        if answer is not None:
            self._busy.setdefault(request.stream, deque())
            task = asyncio.get_running_loop().create_task(
                self._finish(route, request, answer), name=request.subject
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _handle(self, route: Route, request: Request) -> Awaitable[Body] | None:
        """The awaitable, if the request is not yet answered."""
        try:
            if headers.is_level_too_high(request.headers):
                raise api_error("required_api_level")
            answer = route.handler(self._account, request)
            if inspect.isawaitable(answer):
                return answer
            self._send(request, _encode(route, answer), failed=False, counted=route.is_counted)
        except Exception as error:
            self._fail(route, request, error)
        return None

    async def _finish(self, route: Route, request: Request, answer: Awaitable[Body]) -> None:
        watch = _Watch(self._logger, request)
        try:
            data = _encode(route, await answer)
            if len(data) > LONG_ANSWER:
                await asyncio.sleep(0)  # handing it over is separate work, done in a separate turn
            self._send(request, data, failed=False, counted=route.is_counted)
        except Exception as error:
            self._fail(route, request, error)
        finally:  # whatever happened: otherwise the requests behind this one would wait forever
            watch.stop()
            followers = self._busy.pop(request.stream)
            if not self._closed:
                # They arrived before all those that are waiting now.
                self._waiting.extendleft(reversed(followers))
                self._schedule()

    # -- responses

    def _fail(self, route: Route, request: Request, error: Exception) -> None:
        if isinstance(error, ApiError):
            body = error.body
        elif isinstance(error, OSError):  # a stream cannot be read or written at present, and has logged it
            body = store_error(error).body
        else:
            trace = "".join(traceback.format_exception(error))
            self._logger.error(f"JetStream API request failed: {request.subject}: {trace}")
            body = ErrorBody(500, 0, "internal error")
        answer = {"type": TYPE_PREFIX + route.kind, "error": body, **route.on_error}
        try:
            data = msgspec.json.encode(answer)
        except UnicodeEncodeError as mistake:  # a description that quotes what cannot be encoded
            self._fail(route, request, mistake)
            return
        is_counted = not (isinstance(error, ApiError) and error.name == UNCOUNTED_ERROR)
        self._send(request, data, failed=is_counted)

    def _send(self, request: Request, data: bytes, *, failed: bool, counted: bool = True) -> None:
        if counted:
            self._account.count_request(failed=failed)
        if request.reply:
            self._client.answer(request.reply, data)
        if counted and self._client.has_interest(AUDIT_SUBJECT):
            self._audit(request, data)


def _encode(route: Route, body: Body) -> bytes:
    fields = body if isinstance(body, Mapping) else msgspec.to_builtins(body)
    return msgspec.json.encode({"type": TYPE_PREFIX + route.kind, **fields})


class _Watch:
    """Reports a request that takes long, again and again, in the log."""

    def __init__(self, logger: Logger, request: Request) -> None:
        self._logger = logger
        self._request = request
        self._seconds = 0.0
        self._timer = asyncio.get_running_loop().call_later(LONG_SECONDS, self._warn)

    def stop(self) -> None:
        self._timer.cancel()

    def _warn(self) -> None:
        self._seconds += LONG_SECONDS
        subject, waits = self._request.subject, f"{self._seconds:g} seconds"
        self._logger.warn(f"JetStream API request has not been answered for {waits}: {subject}")
        self._timer = asyncio.get_running_loop().call_later(LONG_SECONDS, self._warn)


def _build_tree(routes: tuple[Route, ...]) -> dict[str, Any]:
    """Nested by token; the route of a whole subject is under the empty key."""
    tree: dict[str, Any] = {}
    for route in routes:
        node = tree
        for token in route.pattern.split("."):
            node = node.setdefault(token, {})
        node[""] = route
    return tree


def _subscriptions(routes: tuple[Route, ...]) -> list[str]:
    """Subscriptions that receive every request, but not those that streams or consumers handle themselves.

    Those are subjects such as `$JS.API.CONSUMER.MSG.NEXT.…`: a request to a missing consumer must have no
    responders. The first two tokens are enough to distinguish them.
    """
    heads = {tuple(route.pattern.split(".")[:2]) for route in routes}
    subjects = [PREFIX + ".".join(head) for head in heads]
    return sorted([*subjects, *(f"{PREFIX}{'.'.join(head)}.>" for head in heads if len(head) == 2)])
