"""API requests that are traced."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.broker.message_trace.trace import MessageTrace

API = b"$JS.API."
INSIDE = (b"$JS.API.DIRECT.GET.", b"$JS.API.CONSUMER.MSG.NEXT.")


class RequestTracer:
    """In a trace, as in nats-server, the API is a service that accounts import from the system account.

    That service does not allow traces, so a trace-only request does not get there. Pull requests and direct
    gets stay in their account, where traces do not show parts of the server.
    """

    def __init__(self, system_account: str) -> None:
        self._system_account = system_account

    def __call__(self, trace: MessageTrace, subject: bytes) -> bool:
        """Whether the request is handled."""
        if not subject.startswith(API) or subject.startswith(INSIDE):
            return True
        trace.on_service(self._system_account, subject, subject)
        return not trace.is_only
