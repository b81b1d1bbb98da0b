from typing import final

from headrace.engine.interest import Interest
from headrace.engine.outboxes import Link, Owner

@final
class Hub:
    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int
    stalls: int
    links: dict[int, Link]
    max_payload: int
    max_pending: int
    never_waits: bool
    max_control_line: int
    def __init__(self, *, max_payload: int, max_pending: int, max_control_line: int) -> None: ...
    def fileno(self) -> int: ...
    def attach(self, fd: int, owner: Owner, interest: Interest) -> Link: ...
    def poll(self) -> None: ...
    def flush(self) -> None: ...
    def tidy(self, deadline: float) -> None: ...
    def close(self) -> None: ...
