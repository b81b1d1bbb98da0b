"""What happens to a consumer when its configuration, its place or its stream changes under it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.streams.config import ConsumerConfig
from headrace.streams.consumers.idle import stamp_threshold
from headrace.streams.consumers.push import PushDelivery
from headrace.streams.consumers.start import make_filter
from headrace.streams.slices import RETRY_SECONDS, STEP_RECORDS, wait_in_line

if TYPE_CHECKING:
    from headrace.streams.consumers.consumer import Consumer


DELETED = "Unacknowledged message was deleted"
"""Why, as nats-server's advisory puts it."""


def change_config(consumer: Consumer, config: ConsumerConfig) -> None:
    """Take over a configuration that was checked against the old one."""
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
        consumer.schedule_pause()
        core.advisories.paused(core.pause_until)
    new_filter = make_filter(config)
    if new_filter.patterns != make_filter(old).patterns:
        core.log.remove_watcher(core.cursor)
        core.cursor.filter = new_filter
        _count_again(consumer)
        consumer.stream.on_consumer_gone()  # it may have been the only one that wanted some messages
    consumer.delivery.pump()


def _change_delivery(consumer: Consumer, delivery: PushDelivery, config: ConsumerConfig) -> None:
    core, old = consumer.core, consumer.core.config
    has_moved = config.deliver_subject != old.deliver_subject
    if has_moved:
        consumer.redelivery.expire_all()  # whoever listens there has seen nothing of it
        delivery.stop()
    core.config = config
    if has_moved or config.rate_limit_bps != old.rate_limit_bps:
        delivery.configure()
    if has_moved:
        delivery.start()


def begin_at(consumer: Consumer, seq: int) -> None:
    """Start anew at that sequence."""
    core = consumer.core
    core.ledger.start(seq - 1)
    consumer.source.start_list.clear()
    core.log.remove_watcher(core.cursor)
    core.cursor.next_seq = seq
    core.cursor.delivered_seq = 0
    _count_again(consumer)
    core.changed()
    consumer.stream.on_consumer_gone()
    consumer.delivery.pump()


def _count_again(consumer: Consumer) -> None:
    """How many messages wait is told with each delivery: nothing is delivered until it is known."""
    consumer.core.log.begin_to_watch(consumer.core.cursor)

    def step() -> bool:
        try:
            is_counted = consumer.go_on_counting()
        except OSError:  # the stream cannot be read at present
            asyncio.get_running_loop().call_later(RETRY_SECONDS, wait_in_line, step)
            return True
        if is_counted:
            consumer.wake()
        return is_counted

    wait_in_line(step)


def terminate_removed(consumer: Consumer) -> Iterator[None]:
    """Messages went by limits, age or a delete: what was pending of them ends as if it were terminated."""
    core, ledger = consumer.core, consumer.core.ledger
    for gone in _pending_and_gone(consumer):
        for seq in gone:
            core.advisories.terminated(seq, ledger.pending[seq][0], ledger.deliveries(seq), DELETED)
            ledger.acknowledge(seq)
        if gone:
            ledger.last_ack = core.now()
            core.changed()
            consumer.delivery.pump()
            core.flush_soon()
        yield


def _pending_and_gone(consumer: Consumer) -> Iterator[list[int]]:
    """What is pending of messages that are not there any more; ask for the next part in another step."""
    core, pending = consumer.core, consumer.core.ledger.pending
    seqs = list(pending)
    for start in range(0, len(seqs), STEP_RECORDS):
        if consumer.is_closed:
            return
        some = seqs[start : start + STEP_RECORDS]
        yield [seq for seq in some if seq in pending and not core.log.has(seq)]


def forget_removed(consumer: Consumer) -> Iterator[None]:
    """Messages were purged: what was pending of them is done with."""
    core, ledger, log = consumer.core, consumer.core.ledger, consumer.core.log
    core.cursor.next_seq = max(core.cursor.next_seq, log.first_seq)
    is_any = False
    for gone in _pending_and_gone(consumer):
        for seq in gone:
            ledger.acknowledge(seq)
            ledger.last_ack = core.now()
        is_any = is_any or bool(gone)
        yield
    if consumer.is_closed:
        return
    for seq in [seq for seq in ledger.redelivered if seq < log.first_seq]:
        del ledger.redelivered[seq]
    if not ledger.pending and log.first_seq:
        ledger.delivered_stream = max(ledger.delivered_stream, log.first_seq - 1)
        ledger.close_gap()
    core.changed()
    if is_any:
        consumer.delivery.pump()
        core.flush_soon()
