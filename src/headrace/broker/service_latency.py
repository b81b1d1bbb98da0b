"""Measurements of exported services: one message for each request that is measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.broker.client_info import Info, describe_briefly, describe_client
from headrace.broker.connection import ClientConnection
from headrace.broker.ids import random_id
from headrace.broker.latency_sampling import Headers
from headrace.go_formats import format_time

MEASUREMENT_TYPE = "io.nats.server.metric.v1.service_latency"
DESCRIPTIONS = {
    400: "Bad Request",
    408: "Request Timeout",
    503: "Service Unavailable",
    504: "Service Timeout",
}


class Measured(msgspec.Struct):
    """A request that is measured."""

    subject: bytes
    """Where the measurement is published, in the account of the service."""
    requestor: ClientConnection
    account: str
    share: bool
    headers: Headers | None
    started: int  # nanoseconds since 1970

    def describe_requestor(self, server_name: str) -> Info:
        if self.share:
            return describe_client(self.requestor, self.account, server_name)
        return describe_briefly(self.requestor, self.account)


class Measurements:
    """Publishes them with `publish(subject, payload)`, in the account of the service."""

    def __init__(self, server_name: str, account: str, publish: Callable[[bytes, bytes], object]) -> None:
        self._server_name = server_name
        self._account = account
        self._publish = publish

    def report_failure(self, measured: Measured, status: int) -> None:
        requestor = measured.describe_requestor(self._server_name)
        self._send(measured, status, requestor, None, service=0, system=0, total=0)

    def report_answer(self, measured: Measured, responder: ClientConnection) -> None:
        now = time.time_ns()
        requestor = measured.describe_requestor(self._server_name)
        described = describe_client(responder, self._account, self._server_name)
        round_trip = now - measured.started
        service = max(round_trip - described.get("rtt", 0), 0)
        system = time.time_ns() - now if described.get("rtt") else 0
        total = requestor.get("rtt", 0) + round_trip + system
        self._send(measured, 200, requestor, described, service=service, system=system, total=total)

    def _send(
        self, measured: Measured, status: int, requestor: Info, responder: Info | None, **times: int
    ) -> None:
        body: dict[str, Any] = {
            "type": MEASUREMENT_TYPE,
            "id": random_id(),
            "timestamp": format_time(time.time_ns()),
            "status": status,
        }
        if status in DESCRIPTIONS:
            body["description"] = DESCRIPTIONS[status]
        body["requestor"] = requestor
        if responder:
            body["responder"] = responder
        if measured.headers:
            body["header"] = dict(sorted(measured.headers.items()))
        body["start"] = format_time(measured.started - requestor.get("rtt", 0))
        self._publish(measured.subject, msgspec.json.encode({**body, **times}))
