"""Consumers: how far they are, what waits, and when anybody used them last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.monitor.console.asking import Asking, Document
from headrace.monitor.console.refusal import not_found
from headrace.monitor.console.views.listing import Listing

if TYPE_CHECKING:
    from headrace.streams.consumers.consumer import Consumer

SORTS: dict[str, Callable[[Any], Any]] = {
    "name": lambda consumer: consumer.name.lower(),
    "stream": lambda consumer: consumer.stream.name.lower(),
    "pending": lambda consumer: consumer.upcoming.num_pending,
    "ack_pending": lambda consumer: len(consumer.core.ledger.pending),
    "redelivered": lambda consumer: len(consumer.core.ledger.redelivered),
    "idle": lambda consumer: -last_used(consumer),
}


def last_used(consumer: Consumer) -> int:
    """When it last delivered or got an acknowledgement, in nanoseconds since 1970; 0: never."""
    ledger = consumer.core.ledger
    return max(ledger.last_delivery, ledger.last_ack)


async def show_consumers(ask: Asking) -> Document:
    """Of one stream, or of all."""
    name = ask.text("stream")
    streams = [ask.stream(name)] if name else list(ask.streams())
    ask.viewer.check_publish(f"$JS.API.CONSUMER.LIST.{name or '*'}")
    listing = Listing(ask, SORTS)
    everything = [consumer for stream in streams for consumer in stream.consumers.values()]
    wanted = listing.wanted
    found = [
        one
        for one in everything
        if not wanted or wanted in one.name.lower() or wanted in one.stream.name.lower()
    ]
    page = listing.page(found, lambda one: (one.name, one.stream.name))
    consumers: list[Document] = []
    if page:
        consumers = await ask.jetstream.slices.map(summarize, page)
    return {
        **listing.describe(len(everything), len(found)),
        "consumers": consumers,
    }


def summarize(consumer: Consumer) -> Document:
    info, config = consumer.info(), consumer.config
    return {
        "account": consumer.stream.account.name,
        "stream": consumer.stream.name,
        "name": consumer.name,
        "kind": "push" if consumer.is_push else "pull",
        "durable": bool(config.durable_name),
        "filters": config.filter_subjects or ([config.filter_subject] if config.filter_subject else []),
        "ack_policy": config.ack_policy,
        "created": info.created,
        "pending": info.num_pending,
        "ack_pending": info.num_ack_pending,
        "redelivered": info.num_redelivered,
        "waiting": info.num_waiting,
        "bound": info.push_bound,
        "delivered": str(info.delivered.stream_seq),
        "ack_floor": str(info.ack_floor.stream_seq),
        "last_used": last_used(consumer) // 1_000_000,
        "paused": info.paused,
        "pause_remaining": info.pause_remaining,
        "groups": config.priority_groups or [],
    }


async def show_consumer(ask: Asking) -> Document:
    stream, name = ask.stream(), ask.text("consumer")
    consumer = stream.consumers.get(name)
    if consumer is None:
        raise not_found("There is no such consumer. It may have been deleted.")
    ask.viewer.check_publish(f"$JS.API.CONSUMER.INFO.{stream.name}.{name}")
    return {
        **summarize(consumer),
        "now": int(time.time() * 1000),
        "config": msgspec.to_builtins(consumer.config),
    }
