"""Answers on their way back to another account.

A request that crosses from account A to a service of account B gets a reply subject of its own in B, under
`_R_.`. What is published there goes to the subject that the client in A waits at. As the export says, such a
subject serves one answer, or any number of them: until an empty one, or until none has come for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.accounts.account import Account
from headrace.broker.ids import random_id
from headrace.broker.service_latency import Measured
from headrace.broker.timers import EqualTimers
from headrace.config.identity import ServiceExport
from headrace.engine.core.hub import Hub
from headrace.engine.core.sinks import Inbox, InboxMessage

PREFIX = "_R_."
TOKEN_LENGTH = 6
TRACKED_ENDING = ".T"
DEFAULT_THRESHOLD_SECONDS = 120.0


class Pending:
    """One request that waits for its answers."""

    __slots__ = ("answered", "export", "measured", "reply", "requestor", "subject")

    def __init__(
        self,
        subject: bytes,
        reply: bytes,
        requestor: Account,
        export: ServiceExport | None,
        measured: Measured | None,
    ) -> None:
        self.subject = subject
        """Where the service answers."""
        self.reply = reply
        """Where the client waits, in its own account."""
        self.requestor = requestor
        self.export = export
        self.measured = measured
        self.answered = False

    @property
    def is_single(self) -> bool:
        return self.export is None or self.export.response == "singleton"

    @property
    def seconds(self) -> float:
        return (self.export and self.export.response_threshold) or DEFAULT_THRESHOLD_SECONDS


class Responses:
    """The requests to services of one account that wait for answers."""

    def __init__(
        self,
        hub: Hub,
        account: Account,
        server_hash: str,
        receive: Callable[[Account, list[InboxMessage]], None],
        on_expired: Callable[[Account, Pending], None],
        tracer: Callable[[Any, bytes], bool],
    ) -> None:
        self._hub = hub
        self._account = account
        self._server_hash = server_hash
        self._receive = receive
        self._on_expired = on_expired
        self._tracer = tracer
        self._prefix = f"{PREFIX}{random_id(TOKEN_LENGTH)}."
        self._inbox: Inbox | None = None
        self._pending: dict[bytes, Pending] = {}
        self._measured: dict[object, set[Pending]] = {}  # by who asked
        self._timers: dict[float, EqualTimers[Pending]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def add(
        self, reply: bytes, requestor: Account, export: ServiceExport | None, measured: Measured | None
    ) -> Pending:
        if self._inbox is None:
            self._inbox = Inbox(
                self._hub, self._account.interest, lambda messages: self._receive(self._account, messages)
            )
            self._inbox.tracer = self._tracer
            self._inbox.subscribe(self._prefix.encode() + b">", None, b"1")
        subject = self._prefix + random_id(TOKEN_LENGTH)
        if measured:
            subject += f".{self._server_hash}{TRACKED_ENDING}"
        pending = Pending(subject.encode(), reply, requestor, export, measured)
        self._pending[pending.subject] = pending
        if measured:
            self._measured.setdefault(measured.requestor, set()).add(pending)
        self._timer_of(pending).start(pending)
        return pending

    def get(self, subject: bytes) -> Pending | None:
        return self._pending.get(subject)

    def touch(self, pending: Pending) -> None:
        """An answer has come, and more may follow."""
        self._timer_of(pending).start(pending)

    def remove(self, pending: Pending) -> None:
        self._forget(pending)
        self._timer_of(pending).stop(pending)

    def remove_measured(self, requestor: object) -> list[Pending]:
        """Forget the measured requests of a client that has left; returns them."""
        left = list(self._measured.get(requestor, ()))
        for pending in left:
            self.remove(pending)
        return left

    def _forget(self, pending: Pending) -> None:
        self._pending.pop(pending.subject, None)
        if pending.measured and (others := self._measured.get(pending.measured.requestor)):
            others.discard(pending)
            if not others:
                del self._measured[pending.measured.requestor]

    def stop(self) -> None:
        for timers in self._timers.values():
            timers.stop_all()
        self._pending.clear()
        self._measured.clear()
        if self._inbox is not None:
            self._inbox.unsubscribe_all()
            self._inbox = None

    def _timer_of(self, pending: Pending) -> EqualTimers[Pending]:
        timers = self._timers.get(pending.seconds)
        if timers is None:
            timers = self._timers[pending.seconds] = EqualTimers(pending.seconds, self._expire)
        return timers

    def _expire(self, pending: Pending) -> None:
        self._forget(pending)
        self._on_expired(self._account, pending)
