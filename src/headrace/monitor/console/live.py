"""Server-sent events: one view, again and again, about once a second.

The next one is made when the last one has left: a reader that is slow gets fewer, and nothing is queued for
it. The stream ends when its session does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import msgspec

from headrace.monitor.console.asking import Asking, Document
from headrace.monitor.console.refusal import Refusal
from headrace.monitor.documents import encode_value

EVENT_SECONDS = 1.0
MAX_STREAMS = 64
CONTENT_TYPE = "text/event-stream"

View = Callable[[Asking], Awaitable[Document]]
Renew = Callable[[], Awaitable[Asking]]
"""The same question with what is true now. Raises Refusal if the session has ended."""


class Live:
    """Counts the streams: each is a connection of the monitoring port, and work once a second."""

    def __init__(self) -> None:
        self.open = 0

    @property
    def is_full(self) -> bool:
        return self.open >= MAX_STREAMS

    async def events(self, view: View, renew: Renew) -> AsyncGenerator[bytes, None]:
        self.open += 1
        try:
            while True:
                try:
                    ask = await renew()
                    yield encode_event("view", await view(ask))
                except Refusal as refusal:
                    yield encode_event("refused", {"status": refusal.status, "message": refusal.message})
                    return
                await asyncio.sleep(EVENT_SECONDS)
        finally:
            self.open -= 1


def encode_event(name: str, document: Document) -> bytes:
    return f"event: {name}\ndata: ".encode() + encode_value(document) + b"\n\n"


def without_history(ask: Asking) -> Asking:
    """Only the first event needs what was before it."""
    if not ask.text("history"):
        return ask
    query = {name: value for name, value in ask.query.items() if name != "history"}
    return msgspec.structs.replace(ask, query=query)
