"""What the tests need of nats-py beyond what it does itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.client import JetStreamContext

PATIENCE_SECONDS = 30


async def flush(client: Client) -> None:
    """Until the server has carried out all that the client was told: then another client can rely on it.

    nats-py writes the PING of a flush at once, before a SUB that still waits for its turn to be written. Only
    the second PING certainly comes after that.
    """
    for _ in range(2):
        await client.flush(PATIENCE_SECONDS)


def be_patient() -> None:
    """Let nats-py wait as long as the tests do, unless a test says how long: on a busy machine a server may
    take longer than the half second that it has for an answer, and than the two to let a client in."""
    for function, parameter in (
        (Client.connect, "connect_timeout"),
        (Client.request, "timeout"),
        (Client.flush, "timeout"),
        (Subscription.next_msg, "timeout"),
        (Msg.ack_sync, "timeout"),
        (JetStreamContext.__init__, "timeout"),
        (JetStreamContext.PushSubscription.next_msg, "timeout"),
        (JetStreamContext.PullSubscription.fetch, "timeout"),
    ):
        _replace_default(function, parameter, PATIENCE_SECONDS)


def _replace_default(function: Callable[..., Any], parameter: str, default: object) -> None:
    parameters = inspect.signature(function).parameters.values()
    with_default = [one.name for one in parameters if one.default is not one.empty]
    defaults = list(function.__defaults__ or ())
    defaults[with_default.index(parameter)] = default
    function.__defaults__ = tuple(defaults)  # type: ignore[attr-defined]
