"""What a trace shows of an operation. Nothing secret: CONNECT without credentials, and of a request to an
authorization callout, which has them in it, nothing.
"""

from __future__ import annotations

from typing import Literal

from headrace.accounts.auth_callout import SUBJECT
from headrace.broker.connect_options import REDACTED, redact_connect
from headrace.config.options import Options
from headrace.go_formats import quote


class Trace:
    """Of one connection: a payload is traced after the operation that it belongs to."""

    __slots__ = ("_hides_payload",)

    def __init__(self) -> None:
        self._hides_payload = False

    def describe(
        self, direction: Literal["in", "out"], operation: bytes, argument: bytes, options: Options
    ) -> str:
        arrow = "<<-" if direction == "in" else "->>"
        if operation == b"MSG_PAYLOAD":
            shown = REDACTED if self._hides_payload else _payload(argument, options)
            return f"{arrow} MSG_PAYLOAD: [{shown}]"
        if operation == b"CONNECT":
            argument = redact_connect(argument)
        line = b" ".join(filter(None, (operation, argument)))
        words = line.split(maxsplit=2)
        self._hides_payload = words[:1] != [b"CONNECT"] and words[1:2] == [SUBJECT]
        return f"{arrow} [{line.decode(errors='replace').rstrip()}]"


def _payload(payload: bytes, options: Options) -> str:
    if options.trace_headers:
        payload = payload.partition(b"\r\n\r\n")[0] if payload.startswith(b"NATS/") else b""
    limit = options.max_traced_msg_len
    return quote(payload[:limit] + b"...") if 0 < limit < len(payload) else quote(payload)
