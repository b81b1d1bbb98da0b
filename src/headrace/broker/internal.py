"""The in-process client: publishes and subscribes as a client does, without a socket.

Handlers run at the end of the engine's tick, in the order in which messages
came. They may publish and subscribe.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from headrace.engine.core.hub import Hub
from headrace.engine.core.interest import Interest
from headrace.engine.core.sinks import Inbox, InboxMessage

if TYPE_CHECKING:
    from headrace.broker.message_trace.trace import MessageTrace

Handler = Callable[[InboxMessage], None]
Watcher = Callable[[bool], None]
"""Gets whether anybody subscribes to the subject now."""


class InternalClient:
    """One is enough for a whole room: every subscription has a handler of its own."""

    def __init__(self, hub: Hub, interest: Interest, on_bug: Callable[[Exception], None]) -> None:
        self.hub = hub
        self.interest = interest
        self._on_bug = on_bug
        self._inbox = Inbox(hub, interest, self._receive)
        self._handlers: dict[bytes, Handler] = {}
        self._handles = count(1)
        self._listeners: dict[tuple[bytes, Watcher], Callable[[], None]] = {}

    def trace_with(self, tracer: Callable[[MessageTrace, bytes], bool]) -> None:
        """Have `tracer(trace, subject)` decide whether a handler gets a message of which a trace is made."""
        self._inbox.tracer = tracer

    def subscribe(self, subject: bytes, handler: Handler, *, queue: bytes | None = None) -> int:
        """Returns a handle for `unsubscribe`. Raises InvalidSubject."""
        handle = next(self._handles)
        sid = b"%d" % handle
        self._inbox.subscribe(subject, queue, sid)
        self._handlers[sid] = handler
        return handle

    def unsubscribe(self, handle: int) -> None:
        """Messages that have come but have not been handled yet are dropped."""
        sid = b"%d" % handle
        self._inbox.unsubscribe(sid, -1)
        self._handlers.pop(sid, None)

    def publish(
        self, subject: bytes, payload: bytes = b"", *, reply: bytes = b"", headers: bytes = b""
    ) -> bool:
        """Hand a message to its receivers; whether there were any. It leaves at the end of the tick."""
        delivered = self.hub.publish(self.interest, subject, payload, reply, headers)
        self.hub.flush_soon()
        return delivered

    def answer(self, reply: bytes, payload: bytes) -> None:
        """An answer of the server itself is for this account only, whatever others import from it."""
        self.hub.publish(self.interest, reply, payload, past_shadows=True)
        self.hub.flush_soon()

    def has_interest(self, subject: bytes) -> bool:
        return self.interest.has(subject)

    def has_subscriber(self, subject: bytes, group: bytes = b"") -> bool:
        """Whether somebody subscribes to exactly this subject: in this queue group, or in none if it is empty

        As in nats-server, a subscription with wildcards does not count, but receives what is delivered.
        """
        plain, groups = self.interest.match(subject)
        if not group:
            return any(subscription.subject == subject for subscription in plain)
        return any(
            subscription.subject == subject and subscription.queue == group
            for members in groups
            for subscription in members
        )

    def watch_interest(self, subject: bytes, watcher: Watcher) -> None:
        """Call it, at the end of the tick, whenever a subscription to just this subject comes or goes."""

        def tell() -> None:
            if self._listeners.get((subject, watcher)) is on_change:  # it may have left in the meantime
                watcher(self.interest.has(subject))

        def on_change() -> None:
            self.hub.defer(tell)
            self.hub.flush_soon()

        self.unwatch_interest(subject, watcher)
        self._listeners[subject, watcher] = on_change
        self.interest.follow(subject, on_change)

    def unwatch_interest(self, subject: bytes, watcher: Watcher) -> None:
        on_change = self._listeners.pop((subject, watcher), None)
        if on_change is not None:
            self.interest.unfollow(subject, on_change)

    def close(self) -> None:
        self._inbox.unsubscribe_all()
        self._handlers.clear()

    def _receive(self, messages: list[InboxMessage]) -> None:
        for message in messages:
            handler = self._handlers.get(message.sid)
            if handler is not None:
                self._handle(handler, message)

    def _handle(self, handler: Handler, message: InboxMessage) -> None:
        try:
            handler(message)
        except Exception as error:
            self._on_bug(error)

    def each(self, handler: Handler) -> Callable[[list[InboxMessage]], None]:
        """For an inbox of the caller: hand its messages over one by one, as those of subscriptions."""

        def receive(messages: list[InboxMessage]) -> None:
            for message in messages:
                self._handle(handler, message)

        return receive
