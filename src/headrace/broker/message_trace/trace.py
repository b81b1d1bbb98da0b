"""What becomes of one message: recorded on its way, published where its headers say.

A client that publishes a message with the header `Nats-Trace-Dest` gets a report there: which client sent it,
what its subject was mapped to, which accounts it went through, who got it or did not and why, and which
stream stored it. With `Nats-Trace-Only` that is all that happens: nobody gets it. An account may have a
destination for messages with a W3C `traceparent` (`msg_trace`).

The engine asks (`MessageTraces.begin`) for the few messages that have such a header, and tells the trace of
every receiver (engine/core/traced_deliveries.pyx). What takes longer, a request to another account or a
stream, holds the trace until it is finished. Then it is published, in the account of the client.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.accounts.account import Account
from headrace.accounts.directory import Accounts
from headrace.broker.message_trace.headers import (
    DESTINATION,
    DISABLED,
    GZIP,
    ORIGIN_ACCOUNT,
    TraceHeaders,
    choose_encoding,
    is_drawn,
    is_only_traced,
    read_trace_headers,
    with_destination,
)
from headrace.broker.server_info import ServerStamp
from headrace.broker.violations import VIOLATIONS
from headrace.engine.core.hub import Hub
from headrace.go_formats import format_time, quote
from headrace.subjects import grammar

if TYPE_CHECKING:
    from headrace.broker.connection import ClientConnection
    from headrace.engine.core.interest import Interest

CLIENT = 0
"""The kind of a connection, as nats-server numbers them."""
TOO_LARGE = "maximum payload exceeded"


class MessageTrace:
    """Of one message."""

    def __init__(self, traces: MessageTraces, account: Account, destination: bytes, *, is_only: bool) -> None:
        self.is_only = is_only
        """Nobody gets the message."""
        self.account = account
        self._traces = traces
        self._destination = destination
        self._request: dict[str, Any] = {}
        self._events: list[dict[str, Any]] = []
        self._encoding = b""
        self._open = 1  # what it waits for: the engine, requests to other accounts, streams

    def begin(self, connection: ClientConnection, subject: bytes, headers: TraceHeaders, size: int) -> None:
        self._request = {"header": dict(sorted(headers.items())), "msgsize": size}
        self._encoding = choose_encoding(headers)
        self._add(
            "in",
            kind=CLIENT,
            cid=connection.cid,
            **({"name": connection.options.name} if connection.options.name else {}),
            acc=self.account.name,
            subj=_text(subject),
        )

    # -- what the engine tells

    def on_refused(self, kind: str, detail: bytes) -> None:
        """Its publisher may not publish it."""
        self.on_error(VIOLATIONS[kind].describe(detail))

    def on_error(self, text: str) -> None:
        self._events[0]["error"] = text

    def on_mapped(self, subject: bytes) -> None:
        self._add("sm", to=_text(subject))

    def on_exported(self, interest: Interest, subject: bytes) -> None:
        """Somebody in another account, that of this interest, gets it as a message of a stream."""
        self._add("se", acc=self._traces.account_of(interest).name, to=_text(subject))

    def on_egress(
        self, receiver: ClientConnection, subject: bytes, queue: bytes | None, error: str | None
    ) -> None:
        """A client gets it, or does not because of an error."""
        event: dict[str, Any] = {"kind": CLIENT, "cid": receiver.cid}
        if receiver.options.name:
            event["name"] = receiver.options.name
        if receiver.account is not None and receiver.account is not self.account:
            event["acc"] = receiver.account.name
        event["sub"] = _text(subject)
        if queue:
            event["queue"] = _text(queue)
        if error:
            event["error"] = error
        self._add("eg", **event)

    def finish(self) -> None:
        """One of those that it waits for has told everything."""
        self._open -= 1
        if self._open == 0:
            self._traces.publish(self.account, self._destination, self._document, self._encoding)

    # -- what others tell

    def hold(self) -> None:
        """Wait for one more `finish`."""
        self._open += 1

    def on_service(self, account: str, subject: bytes, to: bytes) -> None:
        """It is a request that another account receives."""
        self._add("si", acc=account, **{"from": _text(subject)}, to=_text(to))

    def on_stream(self, name: str) -> PartInStream:
        """A stream has it; the trace waits for what becomes of it there."""
        self.hold()
        self._add("js", stream=name)
        return PartInStream(self, self._events[-1])

    def _add(self, event: str, /, **details: object) -> None:
        self._events.append({"type": event, "ts": now(), **details})

    def _document(self) -> dict[str, Any]:
        return {"server": self._traces.stamp.next(), "request": self._request, "events": self._events}


class PartInStream:
    """What a stream does with the message."""

    def __init__(self, trace: MessageTrace, event: dict[str, Any]) -> None:
        self.is_only = trace.is_only
        self._trace = trace
        self._event = event

    def on_checked(self, subject: bytes, *, has_interest: bool) -> None:
        """It may be stored, under this subject; or it need not be, as no consumer wants it."""
        self._event["ts"] = now()
        self._event["subject"] = _text(subject)
        if not has_interest:
            self._event["nointerest"] = True

    def finish(self, error: str | None) -> None:
        if error:
            self._event["error"] = error
        self._trace.finish()


class MessageTraces:
    """Begins and publishes them, for all clients of a server."""

    def __init__(self, hub: Hub, accounts: Accounts, stamp: ServerStamp) -> None:
        self.stamp = stamp
        self._hub = hub
        self._accounts = accounts

    def begin(
        self, connection: ClientConnection, subject: bytes, block: bytes, size: int
    ) -> MessageTrace | bytes | bool | None:
        """What to do with a message whose headers ask for a trace: see `_publish_traced` in the parser."""
        read = read_trace_headers(block)
        if read is None or connection.account is None:
            return None
        headers, is_external = read
        account = connection.account
        is_only = not is_external and is_only_traced(headers)
        if ORIGIN_ACCOUNT in headers:  # of older servers, which the next one would trust
            shown = quote(headers[ORIGIN_ACCOUNT][0].encode())
            connection.error(
                f'Message tracing disabled because of header "{ORIGIN_ACCOUNT}" with value={shown}'
            )
            return False if is_only else with_destination(block, DISABLED)
        if is_external:
            options = account.options.trace
            if not options.destination:
                return None
            if not is_drawn(options.percent):
                return with_destination(block, DISABLED)
            destination = options.destination
        else:
            destination = headers[DESTINATION][0]
        if not grammar.is_valid_publish_subject(destination):
            connection.error(
                f"Destination {quote(destination.encode())} is not valid, won't be able to trace events"
            )
            return False if is_only else None
        encoded = grammar.encode(destination)
        if not self._may_publish(connection, encoded):
            connection.on_violation("publish", encoded)
            return False
        trace = MessageTrace(self, account, encoded, is_only=is_only)
        trace.begin(connection, subject, headers, size)
        return trace

    def report_oversized(self, connection: ClientConnection, subject: bytes, block: bytes, size: int) -> None:
        """A message that asks for a trace is too large; its publisher is about to be closed for that."""
        trace = self.begin(connection, subject, block, size)
        if isinstance(trace, MessageTrace):
            trace.on_error(TOO_LARGE)
            trace.finish()

    def _may_publish(self, connection: ClientConnection, subject: bytes) -> bool:
        is_system = connection.account is not None and connection.account.name == self._accounts.system_name
        if subject.startswith(b"_GR_.") or (subject.startswith(b"$NRG.") and not is_system):
            return False
        permissions = connection.link.permissions
        return permissions is None or permissions.may_publish(subject)

    def account_of(self, interest: Interest) -> Account:
        return next(account for account in self._accounts if account.interest is interest)

    def publish(
        self, account: Account, destination: bytes, document: Callable[[], dict[str, Any]], encoding: bytes
    ) -> None:
        """At the end of the tick, if somebody waits for it. Without a system account there are no traces."""

        def send() -> None:
            if self._accounts.system_name and account.interest.is_wanted(destination):
                payload, headers = msgspec.json.encode(document()), b""
                if encoding == GZIP:
                    payload = gzip.compress(payload)
                if encoding:
                    headers = b"NATS/1.0\r\nContent-Encoding: " + encoding + b"\r\n\r\n"
                self._hub.publish(account.interest, destination, payload, b"", headers)

        self._hub.defer(send)
        self._hub.flush_soon()


def now() -> str:
    return format_time(time.time_ns())


def _text(subject: bytes) -> str:
    return subject.decode(errors="replace")
