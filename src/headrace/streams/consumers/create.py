"""Creating and updating consumers: the steps from a request to a running consumer on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.ids import random_id
from headrace.streams import files
from headrace.streams.api_levels import with_level_of
from headrace.streams.config import ConsumerConfig, CreateConsumerRequest, StreamConfig
from headrace.streams.consumers.consumer import Consumer
from headrace.streams.consumers.deliver_policy import Start, find_start
from headrace.streams.consumers.on_disk import directory as consumer_store
from headrace.streams.consumers.on_disk.directory import ConsumerMeta
from headrace.streams.consumers.on_disk.state import snapshot
from headrace.streams.consumers.rules import (
    MAX_NAME_BYTES,
    Limits,
    check_config,
    check_partition,
    check_update,
    check_workqueue,
    is_valid_name,
    set_defaults,
)
from headrace.streams.errors import ApiError, StoreError, api_error
from headrace.streams.slices import Work

if TYPE_CHECKING:
    from headrace.streams.jetstream_account import JetStreamAccount
    from headrace.streams.stream import Stream

EPHEMERAL_NAME_LENGTH = 8
Consumers = dict[str, ConsumerConfig]
"""Configurations by name."""


def limits_of(account: JetStreamAccount) -> Limits:
    limits, server = account.resources.limits, account.jetstream.options.jetstream_limits
    return Limits(
        max_ack_pending=server.max_ack_pending,
        max_request_batch=server.max_request_batch,
        account_max_ack_pending=limits.max_ack_pending,
        max_consumers=limits.max_consumers,
    )


async def create_consumer(stream: Stream, request: CreateConsumerRequest) -> Consumer:
    """Create it, or update the one of that name. It is on disk when this returns. Raises ApiError."""
    config, slices = request.config, stream.jetstream.slices
    limits = limits_of(stream.account)
    set_defaults(config, stream.config, limits, request.pedantic)
    await slices.result(check_config(config, stream.config, limits))
    name = config.durable_name or config.name
    existing = stream.consumers.get(name) if name else None
    if existing is not None:
        return await _create_again(existing, request)
    if request.action == "update":
        raise api_error("consumer_does_not_exist")
    others = [each.config for each in stream.consumers.values()]
    await slices.result(_check_beside(config, stream.config, others, limits))
    if not name:
        name = random_id(EPHEMERAL_NAME_LENGTH)
        while name in stream.consumers:
            name = random_id(EPHEMERAL_NAME_LENGTH)
    try:
        start = await _find_start(stream, config)
        consumer = Consumer(stream, name, config, stream.jetstream.now(), start=start)
    except StoreError as error:  # the name is not a valid file name
        raise _not_stored() from error
    await _save_new(consumer)
    stream.consumers[name] = consumer  # from here on the stream keeps messages for it
    if name in stream.damaged_consumers:
        stream.on_damaged_consumer_gone(name)
    await consumer.count()
    consumer.start()
    consumer.core.advisories.created()
    return consumer


async def _find_start(stream: Stream, config: ConsumerConfig) -> Start:
    return await stream.jetstream.slices.result(
        find_start(config, stream.log, stream.config.max_msgs_per_subject)
    )


async def _create_again(existing: Consumer, request: CreateConsumerRequest) -> Consumer:
    config, stream = request.config, existing.stream
    if request.action == "create":
        config.metadata = with_level_of(existing.config.metadata, config.metadata)
        if config != existing.config:
            raise api_error("consumer_already_exists")
    if stream.config.retention == "workqueue":
        others = [other.config for name, other in stream.consumers.items() if name != existing.name]
        rivals = [other for other in others if not (other.direct or other.sourcing)]
        await stream.jetstream.slices.result(check_partition(config, rivals))
    in_use = (
        existing.core.client.has_interest(existing.config.deliver_subject.encode())
        if existing.is_push
        else False
    )
    check_update(existing.config, config, in_use)
    await update_consumer(existing, config)
    return existing


async def update_consumer(consumer: Consumer, config: ConsumerConfig) -> None:
    """Save the configuration, then use it."""
    await _save(consumer, config)
    if not consumer.is_closed:
        consumer.update(config)
        await consumer.core.slices.run(consumer.continue_counting)


async def _save_new(consumer: Consumer) -> None:
    directory = consumer.stream.directory
    if directory is None or consumer.directory is None:
        return
    meta = ConsumerMeta(consumer.name, consumer.created, consumer.config)
    try:
        await files.in_thread(consumer_store.save_new, directory, meta, snapshot(consumer.core.ledger))
    except OSError as error:
        raise _not_stored() from error


def _not_stored() -> ApiError:
    """An error without the reason, which would show paths of this server."""
    return api_error("consumer_create", err="error creating store for consumer")


async def _save(consumer: Consumer, config: ConsumerConfig) -> None:
    directory = consumer.stream.directory
    if directory is None or consumer.directory is None:
        return
    meta = ConsumerMeta(consumer.name, consumer.created, config)
    try:
        is_synced = await files.in_thread(consumer_store.save_meta, directory, meta)
    except OSError as error:
        raise api_error("consumer_store_failed", err=(error.strerror or "").lower()) from error
    if not is_synced:
        where = f"{consumer.stream.name} > {consumer.name}"
        consumer.core.warn(f"Consumer '{where}': its new configuration may be lost in a power failure")


def check_restored(
    account: JetStreamAccount, stream: StreamConfig, name: str, config: ConsumerConfig, others: Consumers
) -> Work[None]:
    """Check a consumer of a stream that is being restored, by the same rules, and set its name.

    `others` are those that were restored before. Raises ApiError.
    """
    config.name = name
    limits = limits_of(account)
    set_defaults(config, stream, limits, False)
    yield from check_config(config, stream, limits)
    if not is_valid_name(name):
        raise api_error("consumer_name_contains_path_separators")
    if name in others:
        raise api_error("consumer_already_exists")
    yield from _check_beside(config, stream, list(others.values()), limits)


def _check_beside(
    config: ConsumerConfig, stream: StreamConfig, others: list[ConsumerConfig], limits: Limits
) -> Work[None]:
    """Whether this one is allowed in addition to the others."""
    limit = stream.max_consumers
    if limit <= 0 or 0 < limits.max_consumers < limit:
        limit = limits.max_consumers
    if 0 < limit <= sum(1 for other in others if not other.sourcing):
        raise api_error("maximum_consumers_limit")
    limitable = [other for other in others if not (other.direct or other.sourcing)]
    yield from check_workqueue(config, stream, limitable)
    if len(config.durable_name.encode()) > MAX_NAME_BYTES:
        raise api_error("consumer_name_too_long", max=MAX_NAME_BYTES)
