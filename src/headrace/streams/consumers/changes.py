"""Changes of a running consumer: another configuration (update) or another position (reset).

A reset goes back to the ack floor, or to a sequence that the deliver policy allows.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from headrace.engine.core.sinks import InboxMessage
from headrace.streams import headers
from headrace.streams.api.json_requests import unmarshal
from headrace.streams.config import ConsumerConfig, Wire
from headrace.streams.consumers.deliver_policy import make_filter
from headrace.streams.consumers.inactive_threshold import stamp_threshold
from headrace.streams.consumers.info import with_versions
from headrace.streams.consumers.pause import pause_until, schedule_end
from headrace.streams.consumers.push import PushDelivery
from headrace.streams.errors import ApiError, api_error, store_error
from headrace.streams.formats import parse_store_time
from headrace.streams.slices import RETRY_SECONDS
from headrace.streams.wire_types import Uint64

if TYPE_CHECKING:
    from headrace.streams.consumers.consumer import Consumer

RESET_TYPE = "io.nats.jetstream.api.v1.consumer_reset_response"


class ResetRequest(Wire):
    go_name = "JSApiConsumerResetRequest"
    seq: Uint64 = 0


def change_config(consumer: Consumer, config: ConsumerConfig) -> None:
    """Use a configuration that was checked against the old one."""
    core, old = consumer.core, consumer.core.config
    if config.inactive_threshold != old.inactive_threshold:
        stamp_threshold(config)
    if isinstance(consumer.delivery, PushDelivery):
        _change_delivery(consumer, consumer.delivery, config)
    core.config = config
    core.cursor.headers_only = config.headers_only
    if config.inactive_threshold != old.inactive_threshold:
        consumer.idleness.configure()
    if core.ledger.pending and config.ack_wait != old.ack_wait:
        consumer.redelivery.check()
    if config.pause_until != old.pause_until:
        schedule_end(core)
        core.advisories.paused(pause_until(core))
    new_filter = make_filter(config)
    if new_filter.patterns != make_filter(old).patterns:
        core.log.remove_watcher(core.cursor)
        core.cursor.filter = new_filter
        _count_again(consumer)
        consumer.stream.on_consumer_gone()  # it may have been the only one that needed some messages
    consumer.delivery.pump()


def _change_delivery(consumer: Consumer, delivery: PushDelivery, config: ConsumerConfig) -> None:
    core, old = consumer.core, consumer.core.config
    has_moved = config.deliver_subject != old.deliver_subject
    if has_moved:
        consumer.redelivery.expire_all()  # subscribers of the new subject have not seen any of them
        delivery.stop()
    core.config = config
    if has_moved or config.rate_limit_bps != old.rate_limit_bps:
        delivery.configure()
    if has_moved:
        delivery.start()


def begin_at(consumer: Consumer, seq: int) -> None:
    """Restart at that sequence."""
    core = consumer.core
    core.ledger.start(seq - 1)
    consumer.upcoming.start_list.clear()
    core.log.remove_watcher(core.cursor)
    core.cursor.next_seq = seq
    core.cursor.delivered_seq = 0
    _count_again(consumer)
    core.changed()
    consumer.stream.on_consumer_gone()
    consumer.delivery.pump()


def _count_again(consumer: Consumer) -> None:
    """Each delivery says how many messages are pending, so nothing is delivered until they are counted."""
    consumer.core.log.begin_to_watch(consumer.core.cursor)

    def step() -> bool:
        try:
            is_counted = consumer.continue_counting()
        except OSError:  # the stream cannot be read at present
            asyncio.get_running_loop().call_later(RETRY_SECONDS, consumer.core.slices.add, step)
            return True
        if is_counted:
            consumer.wake()
        return is_counted

    consumer.core.slices.add(step)


def on_reset_request(consumer: Consumer, message: InboxMessage) -> None:
    """Each consumer subscribes to its own requests, so a request to a missing one has no responders."""
    if not message.reply:
        return
    try:
        if headers.is_level_too_high(message.headers):
            raise api_error("required_api_level")
        request = unmarshal(message.payload, ResetRequest) if message.payload else ResetRequest()
        seq = _find_sequence(consumer, request.seq)
    except ApiError as error:
        _refuse(consumer, message.reply, error)
        return
    consumer.begin_at(seq)
    consumer.core.slices.add(lambda: _answer_when_counted(consumer, message.reply, seq))


def _refuse(consumer: Consumer, reply: bytes, error: ApiError) -> None:
    answer = {"type": RESET_TYPE, "error": error.body, "reset_seq": 0}
    consumer.core.client.publish(reply, msgspec.json.encode(answer))


def _answer_when_counted(consumer: Consumer, reply: bytes, seq: int) -> bool:
    try:
        if not consumer.continue_counting():
            return False
    except OSError as error:  # it has restarted; pending messages are counted later
        _refuse(consumer, reply, store_error(error))
        return True
    info = msgspec.to_builtins(with_versions(consumer.info()))
    answer = {"type": RESET_TYPE, **info, "reset_seq": seq}
    consumer.core.client.publish(reply, msgspec.json.encode(answer))
    return True


def _find_sequence(consumer: Consumer, seq: int) -> int:
    config, log = consumer.config, consumer.core.log
    if seq == 0:
        return consumer.core.ledger.floor[1] + 1
    if config.deliver_policy == "by_start_sequence":
        if seq < config.opt_start_seq:
            raise api_error("consumer_invalid_reset", err="below start seq")
    elif config.deliver_policy == "by_start_time":
        if seq < log.seek_time(parse_store_time(config.opt_start_time or "")):
            raise api_error("consumer_invalid_reset", err="below start time")
    elif config.deliver_policy != "all":
        raise api_error("consumer_invalid_reset", err="not allowed")
    return seq
