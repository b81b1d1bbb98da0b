from collections.abc import Callable
from typing import final

from headrace.engine.core.interest import Interest
from headrace.engine.core.link import Link, Owner, Trace
from headrace.engine.core.transport import Transport

@final
class Hub:
    @property
    def in_msgs(self) -> int: ...
    @property
    def in_bytes(self) -> int: ...
    @property
    def out_msgs(self) -> int: ...
    @property
    def out_bytes(self) -> int: ...
    @property
    def stalls(self) -> int: ...
    links: dict[int, Link]
    max_payload: int
    max_pending: int
    never_waits: bool
    max_control_line: int
    def __init__(self, *, max_payload: int, max_pending: int, max_control_line: int) -> None: ...
    def fileno(self) -> int: ...
    def attach(
        self, fd: int, owner: Owner, transport: Transport | None = None, *, greets: bool = False
    ) -> Link: ...
    on_bug: Callable[[Exception], None] | None
    def add_source(self, fd: int, action: Callable[[], None]) -> None: ...
    def remove_source(self, fd: int) -> None: ...
    def defer(self, action: Callable[[], object]) -> None: ...
    def publish(
        self,
        interest: Interest,
        subject: bytes,
        payload: bytes,
        reply: bytes = b"",
        headers: bytes = b"",
        *,
        shown: bytes | None = None,
        past_shadows: bool = False,
    ) -> bool: ...
    def publish_traced(
        self,
        trace: Trace,
        interest: Interest,
        subject: bytes,
        payload: bytes,
        reply: bytes = b"",
        headers: bytes = b"",
        *,
        shown: bytes | None = None,
    ) -> bool: ...
    def poll(self) -> None: ...
    def flush_soon(self) -> None: ...
    def flush(self) -> None: ...
    def tidy(self, deadline: float) -> None: ...
    def close(self) -> None: ...
