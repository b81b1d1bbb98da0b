from collections.abc import Callable, Collection
from typing import Any, final

from headrace.engine.core.hub import Hub
from headrace.engine.core.interest import Interest

@final
class InboxMessage:
    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes
    sid: bytes
    publisher: object
    destination: bytes
    trace: Any
    def __init__(
        self,
        subject: bytes,
        reply: bytes = b"",
        headers: bytes = b"",
        payload: bytes = b"",
        sid: bytes = b"",
        publisher: object = None,
        destination: bytes | None = None,
    ) -> None: ...

class Sink:
    subscriptions: Collection[bytes]
    def subscribe(self, subject: bytes, queue: bytes | None, sid: bytes) -> None: ...
    def unsubscribe(self, sid: bytes, maximum: int) -> None: ...
    def unsubscribe_all(self) -> None: ...
    def renew_shadows(self) -> None: ...
    def settle(self) -> None: ...

@final
class Inbox(Sink):
    def __init__(
        self,
        hub: Hub,
        interest: Interest,
        receive: Callable[[list[InboxMessage]], None],
        prompt: bool = False,
    ) -> None: ...
    tracer: Callable[[Any, bytes], bool] | None
    def take(self) -> list[InboxMessage]: ...
