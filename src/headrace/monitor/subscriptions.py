"""How subscriptions are shown, and the pages of long lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.broker.connection import ClientConnection
from headrace.config.identity import GLOBAL_ACCOUNT
from headrace.engine.core.trie import Subscription

DEFAULT_LIST_SIZE = 1024


def account_labels(connection: ClientConnection) -> dict[str, str]:
    """A connection that has not logged in is in the global account."""
    account = connection.account
    if account is None:
        return {"account": GLOBAL_ACCOUNT, "account_tag": GLOBAL_ACCOUNT}
    return {"account": account.name, "account_tag": account.title}


def subscriptions_of(connection: ClientConnection, offset: int = 0) -> Iterator[Subscription]:
    """Some at a time: responses are sent in pieces, and subscriptions come and go in between."""
    some, position = connection.link.some_subscriptions(0, offset)
    yield from some
    while position:
        some, position = connection.link.some_subscriptions(position)
        yield from some


def list_subjects(connection: ClientConnection) -> Iterator[str]:
    return (show(subscription.subject) for subscription in subscriptions_of(connection))


def list_details(connection: ClientConnection) -> Iterator[dict[str, Any]]:
    return (describe_subscription(one, connection.cid) for one in subscriptions_of(connection))


def describe_subscription(subscription: Subscription, cid: int) -> dict[str, Any]:
    described: dict[str, Any] = {"subject": show(subscription.subject)}
    if subscription.queue:
        described["qgroup"] = show(subscription.queue)
    described["sid"] = show(subscription.sid)
    described["msgs"] = subscription.delivered
    if subscription.maximum:
        described["max"] = subscription.maximum
    described["cid"] = cid
    return described


def show(text: bytes) -> str:
    """Peers may use any bytes in subjects; JSON may not."""
    return text.decode(errors="replace")


def page(offset: int, limit: int) -> tuple[int, int]:
    """The offset and limit to use for those in the request."""
    return max(offset, 0), limit if limit > 0 else DEFAULT_LIST_SIZE
