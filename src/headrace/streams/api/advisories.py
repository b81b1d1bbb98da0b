"""Advisories on `$JS.EVENT.…`: a consumer was created, deleted, paused or pinned, a message was acknowledged,
refused or terminated; and which client made which request, for API audits.

An advisory is built, encoded and published only if somebody listens to its subject.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headrace.broker.client_info import describe_client
from headrace.broker.connection import ClientConnection
from headrace.broker.ids import random_id
from headrace.broker.internal import InternalClient
from headrace.streams.formats import format_time

SUBJECT = "$JS.EVENT.ADVISORY.CONSUMER."
METRIC_SUBJECT = "$JS.EVENT.METRIC.CONSUMER.ACK"
TYPE = "io.nats.jetstream.advisory.v1."
METRIC_TYPE = "io.nats.jetstream.metric.v1.consumer_ack"


class Advisories:
    """The advisories of one consumer."""

    def __init__(
        self,
        client: InternalClient,
        now: Callable[[], int],
        *,
        stream: str,
        consumer: str,
        account: str,
        domain: str = "",
    ) -> None:
        self._client = client
        self._now = now
        self._names = {"stream": stream, "consumer": consumer}
        self._domain = {"domain": domain} if domain else {}
        self._account = {"account": account}
        self._tail = f".{stream}.{consumer}"

    def created(self) -> None:
        self._send(SUBJECT + "CREATED", TYPE + "consumer_action", {"action": "create"})

    def deleted(self) -> None:
        self._send(SUBJECT + "DELETED", TYPE + "consumer_action", {"action": "delete"})

    def paused(self, until: int) -> None:
        """Called on resume, too: `until` is then in the past, or 0."""
        body = {"paused": until > self._now(), "pause_until": format_time(until)}
        self._send(SUBJECT + "PAUSE", TYPE + "consumer_pause", body)

    def pinned(self, group: str, pin_id: str) -> None:
        body = {**self._account, "group": group, "pinned_id": pin_id}
        self._send(SUBJECT + "PINNED", TYPE + "consumer_group_pinned", body)

    def unpinned(self, group: str, reason: str) -> None:
        body = {**self._account, "group": group, "reason": reason}
        self._send(SUBJECT + "UNPINNED", TYPE + "consumer_group_unpinned", body)

    def deliveries_exhausted(self, stream_seq: int, deliveries: int) -> None:
        body = {"stream_seq": stream_seq, "deliveries": deliveries}
        self._send(SUBJECT + "MAX_DELIVERIES", TYPE + "max_deliver", body)

    def refused(self, stream_seq: int, consumer_seq: int, deliveries: int) -> None:
        body = {"consumer_seq": consumer_seq, "stream_seq": stream_seq, "deliveries": deliveries}
        self._send(SUBJECT + "MSG_NAKED", TYPE + "nak", body)

    def terminated(self, stream_seq: int, consumer_seq: int, deliveries: int, reason: str) -> None:
        body: dict[str, object] = {
            "consumer_seq": consumer_seq,
            "stream_seq": stream_seq,
            "deliveries": deliveries,
        }
        if reason:
            body["reason"] = reason
        self._send(SUBJECT + "MSG_TERMINATED", TYPE + "terminated", body)

    def acknowledged(self, stream_seq: int, consumer_seq: int, deliveries: int, delay: int) -> None:
        body = {
            "consumer_seq": consumer_seq,
            "stream_seq": stream_seq,
            "ack_time": delay,
            "deliveries": deliveries,
        }
        self._send(METRIC_SUBJECT, METRIC_TYPE, body)

    def _send(
        self, subject: str, kind: str, body: dict[str, object] | dict[str, str] | dict[str, int]
    ) -> None:
        target = (subject + self._tail).encode()
        if not self._client.has_interest(target):
            return
        event = {"type": kind, "id": random_id(), "timestamp": format_time(self._now())}
        self._client.publish(target, msgspec.json.encode({**event, **self._names, **body, **self._domain}))


def client_info(publisher: object, server_name: str, account: str) -> dict[str, Any]:
    """For a request from within the server: only the account."""
    connection = getattr(publisher, "owner", publisher)
    if not isinstance(connection, ClientConnection):
        return {"acc": account}
    return describe_client(connection, account, server_name)
