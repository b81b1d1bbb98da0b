"""A consumer: one reader's position in a stream, on behalf of many clients.

    requests, interest ->  PullDelivery | PushDelivery  -> Upcoming -> the engine's Cursor -> clients
    acknowledgements   ->  Acks -> Ledger               <- Redelivery (what was not acknowledged in time)

This file puts the parts together, starts and stops them, and passes every event to its part. The engine
calls in once per batch: `wake` after a group is committed or a full receiver has room, acknowledgements once
per tick. All deadlines share one timer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.config.options import SYNC_ALWAYS
from headrace.engine.core.sinks import InboxMessage
from headrace.engine.streams.ack_inbox import AckInbox
from headrace.engine.streams.cursor import Cursor
from headrace.streams import headers as header_block
from headrace.streams.api.advisories import Advisories
from headrace.streams.config import ConsumerConfig
from headrace.streams.consumers import pause
from headrace.streams.consumers.acknowledgements import Ack, Acks
from headrace.streams.consumers.alarm import Alarm
from headrace.streams.consumers.changes import begin_at, change_config, on_reset_request
from headrace.streams.consumers.core import Core, status, steady_clock
from headrace.streams.consumers.deliver_policy import Start, make_filter, set_start
from headrace.streams.consumers.inactive_threshold import Idleness, stamp_threshold
from headrace.streams.consumers.info import ConsumerInfo, describe
from headrace.streams.consumers.next_message import Replay, Upcoming
from headrace.streams.consumers.on_disk import directory as consumer_store
from headrace.streams.consumers.on_disk.state import ConsumerState, snapshot, snapshot_of_many
from headrace.streams.consumers.on_disk.state_writer import StateWriter
from headrace.streams.consumers.pull import PullDelivery
from headrace.streams.consumers.push import PushDelivery
from headrace.streams.consumers.redelivery import Redelivery
from headrace.streams.consumers.removed_messages import forget_removed, terminate_removed
from headrace.streams.slices import STEP_RECORDS

if TYPE_CHECKING:
    from headrace.streams.stream import Stream

NEVER = 1 << 64
EXPIRE_RETRY = 10_000_000_000
"""Nanoseconds until a consumer that could not be deleted is deleted again."""
RESTORED_CHECK = 500_000_000
"""Nanoseconds after a start until messages that were pending before are checked, if not due earlier."""


class Consumer:
    """`state` is from disk, None for a new consumer, which begins at `start`.

    The configuration has its defaults and is checked.
    """

    def __init__(
        self,
        stream: Stream,
        name: str,
        config: ConsumerConfig,
        created: int,
        state: ConsumerState | None = None,
        start: Start | None = None,
    ) -> None:
        self.stream = stream
        self.name: str = name
        self.created = created
        self.is_closed = False
        self._is_counted = False
        stamp_threshold(config)
        self._hub, self._interest = stream.jetstream.hub, stream.account.interest
        self.core: Core = self._make_core(config)
        self._writer = self._make_writer()
        self.upcoming: Upcoming = Upcoming(
            self.core, set_start(self.core, state, start, stream.config.max_msgs_per_subject)
        )
        self.redelivery = Redelivery(self.core)
        replay = Replay(self.core)
        self.delivery: PullDelivery | PushDelivery
        if config.deliver_subject:
            burst = stream.config.max_msg_size if stream.config.max_msg_size > 0 else self._hub.max_payload
            self.delivery = PushDelivery(self.core, self.upcoming, replay, burst=burst)
        else:
            self.delivery = PullDelivery(self.core, self.upcoming, replay)
        self.acks = Acks(
            self.core, pump=self.delivery.pump, pull=self._on_pull, is_closed=lambda: self.is_closed
        )
        self.idleness = Idleness(self.core, self.delivery, self.redelivery, self._expire)
        self._ack_inbox: AckInbox | None = None
        self._subscriptions: list[int] = []

    def _make_core(self, config: ConsumerConfig) -> Core:
        stream = self.stream
        account, jetstream = stream.account, stream.jetstream
        now = steady_clock(jetstream.now)
        return Core(
            account=account.name,
            stream=stream.name,
            name=self.name,
            config=config,
            client=account.client,
            log=stream.log,
            slices=jetstream.slices,
            cursor=self._make_cursor(config),
            alarm=Alarm(now, self._on_alarm),
            advisories=Advisories(
                account.client,
                jetstream.now,
                stream=stream.name,
                consumer=self.name,
                account=account.name,
                domain=jetstream.domain,
            ),
            now=now,
            time_of_day=jetstream.now,
            changed=self._on_change,
            acknowledged=stream.on_acknowledged,
            is_kept_for_consumers=lambda: stream.config.retention != "limits",
            warn=jetstream.logger.warn,
            later=stream.later,
            flush_soon=jetstream.hub.flush_soon,
        )

    @property
    def config(self) -> ConsumerConfig:
        return self.core.config

    @property
    def is_push(self) -> bool:
        return isinstance(self.delivery, PushDelivery)

    # -- life

    async def count(self) -> None:
        """Before a start: count pending messages in slices, even those that come and go in the meantime."""
        self._is_counted = True
        self.core.log.begin_to_watch(self.core.cursor)
        try:
            await self.core.slices.run(self.continue_counting)
        except OSError:  # the log cannot be read at present: there is no consumer
            self.core.log.remove_watcher(self.core.cursor)
            raise

    def continue_counting(self) -> bool:
        """Returns whether the pending messages are counted."""
        return self.is_closed or self.core.log.count_ahead(self.core.cursor, STEP_RECORDS)

    def start(self) -> None:
        """Begin to serve clients. The log keeps its count of pending messages up to date."""
        core, prefix = self.core, f"{self.stream.name}.{self.name}"
        if not self._is_counted:
            core.log.add_watcher(core.cursor)
        if core.config.ack_policy not in ("none", "flow_control"):
            ledger = core.ledger
            self._ack_inbox = AckInbox(
                self._hub,
                self._interest,
                self._on_acks,
                self.acks.are_plain,
                ledger.pending,
                (ledger.redelivered, ledger.queue, ledger.delayed),
            )
            self._ack_inbox.subscribe(f"$JS.ACK.{prefix}.*.*.*.*.*".encode(), None, b"1")
        subscribe = core.client.subscribe
        self._subscriptions = [
            subscribe(f"$JS.API.CONSUMER.MSG.NEXT.{prefix}".encode(), self._on_next),
            subscribe(
                f"$JS.API.CONSUMER.RESET.{prefix}".encode(), lambda message: on_reset_request(self, message)
            ),
        ]
        if isinstance(self.delivery, PushDelivery):
            self.delivery.on_active = self.idleness.on_active
            if self.delivery.flow is not None:
                self._subscriptions.append(subscribe(f"$JS.FC.{prefix}.*".encode(), self._on_flow_control))
            self.delivery.start()
        self.idleness.configure()
        pause.schedule_end(core)
        if core.ledger.pending:
            core.alarm.set("acks", core.now() + min(core.config.ack_wait, RESTORED_CHECK))
        # the response to its creation goes first
        asyncio.get_running_loop().call_soon(self.wake)

    async def save(self) -> None:
        """Write the state to disk if it has changed."""
        if self._writer is not None:
            await self._writer.flush()

    def stop(self) -> None:
        """Stop, and keep the state for the next start."""
        if not self.is_closed and isinstance(self.delivery, PullDelivery):
            self.delivery.release_all(deleted=False)
        self._close(keep=True)

    def delete(self) -> None:
        """Stop, and leave the stream. The files stay: `delete_with_files` removes them."""
        if self.is_closed:
            return
        self.core.advisories.deleted()
        if isinstance(self.delivery, PullDelivery):
            self.delivery.release_all(deleted=True)
        self._close(keep=False)
        self.stream.consumers.pop(self.name, None)
        self.stream.on_consumer_gone()

    def _expire(self) -> None:
        """Nobody has used it for long enough."""
        try:
            self.delete_with_files()
        except OSError as error:
            self.core.warn(f"Consumer '{self.stream.name} > {self.name}' cannot be deleted: {error}")
            self.core.alarm.set("idle", self.core.now() + EXPIRE_RETRY)

    def delete_with_files(self) -> asyncio.Future[None] | None:
        """Another consumer may use the name at once; the files are gone from disk when the future is done.

        Raises OSError; then it is unchanged. So the files go first: a deleted consumer must not come back.
        """
        retired = None if self.directory is None else consumer_store.retire(self.directory)
        self.delete()
        if retired is None:
            return None
        return asyncio.get_running_loop().run_in_executor(None, consumer_store.remove, retired)

    def _close(self, *, keep: bool) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        core = self.core
        core.alarm.stop()
        for handle in self._subscriptions:
            core.client.unsubscribe(handle)
        if self._ack_inbox is not None:
            self._ack_inbox.unsubscribe_all()
        if isinstance(self.delivery, PushDelivery):
            self.delivery.stop()
        core.log.remove_watcher(core.cursor)
        core.cursor.release()
        if self._writer is not None:
            self._writer.close(keep=keep)

    def _make_cursor(self, config: ConsumerConfig) -> Cursor:
        return Cursor(
            self._hub,
            self._interest,
            self.stream.log,
            make_filter(config),
            self.wake,
            ack_prefix=f"$JS.ACK.{self.stream.name}.{self.name}.".encode(),
            headers_only=config.headers_only,
        )

    def _make_writer(self) -> StateWriter | None:
        directory = self.directory
        if directory is None:
            return None
        path = os.path.join(directory, consumer_store.STATE)
        sync = self.stream.jetstream.options.sync_interval == SYNC_ALWAYS
        ledger = self.core.ledger
        return StateWriter(
            path,
            lambda: snapshot(ledger),
            self.core.warn,
            sync=sync,
            snapshot_slowly=lambda: snapshot_of_many(ledger, self.core.slices),
        )

    @property
    def directory(self) -> str | None:
        """None for a consumer in memory."""
        if self.stream.directory is None or self.config.mem_storage or self.config.direct:
            return None
        return consumer_store.consumer_directory(self.stream.directory, self.name)

    # -- events

    def wake(self) -> None:
        """Messages were committed, or a receiver that was full has room."""
        if not self.is_closed:
            self.delivery.pump()

    def _on_acks(self, acks: list[Ack], settled: int, lowest: int) -> None:
        if self.is_closed:
            return
        if self.config.inactive_threshold:
            self.idleness.note_ack()
        self.acks.on_acks(acks, settled, lowest)

    def _on_next(self, message: InboxMessage) -> None:
        if not message.reply or self.is_closed:
            return
        if self.is_push:
            self.core.send_status(message.reply, status(409, "Consumer is push based"))
        elif header_block.is_level_too_high(message.headers):
            self.core.send_status(message.reply, status(412, "Required Api Level"))
        else:
            self._on_pull(message.reply, message.payload)

    def _on_pull(self, reply: bytes, payload: bytes) -> None:
        if isinstance(self.delivery, PullDelivery):
            if reply:
                self.delivery.on_request(reply, payload)
        else:
            self.core.send_status(reply, status(409, "Consumer is push based"))

    def _on_flow_control(self, message: InboxMessage) -> None:
        if isinstance(self.delivery, PushDelivery):
            self.delivery.on_flow_control(message.subject, message.headers, self.acks)

    def _on_change(self) -> None:
        if self._writer is not None:
            self._writer.changed()

    def _on_alarm(self, kind: str) -> None:
        delivery = self.delivery
        if kind == "acks":
            if self.redelivery.check():
                delivery.pump()
        elif kind == "idle":
            self.idleness.check()
        elif kind == "pull" and isinstance(delivery, PullDelivery):
            delivery.on_due()
        elif kind == "pin" and isinstance(delivery, PullDelivery):
            delivery.pins.unpin(self.config.priority_groups[0], "timeout")
            delivery.pump()
        elif kind == "heartbeat" and isinstance(delivery, PushDelivery):
            delivery.beat()
        elif kind == "pause":
            if pause.on_alarm(self.core):
                delivery.pump()
        else:  # "rate", "replay", "serve", "read"
            delivery.pump()

    # -- changes

    def update(self, config: ConsumerConfig) -> None:
        """Use a configuration that was checked against the old one."""
        change_config(self, config)

    def begin_at(self, seq: int) -> None:
        """Restart at that sequence: nothing is pending, consumer sequences begin at 1."""
        begin_at(self, seq)

    def on_purge(self) -> Iterator[None]:
        """Messages were purged: forget those that were pending, step by step."""
        return forget_removed(self)

    def on_removed(self) -> Iterator[None]:
        """Messages were removed in another way: terminate those that were pending, step by step."""
        return terminate_removed(self)

    def unpin(self, group: str) -> None:
        if isinstance(self.delivery, PullDelivery):
            self.delivery.pins.unpin(group, "admin")
            self.delivery.pump()

    # -- questions

    def needs(self, seq: int, subject: bytes) -> bool:
        """Whether the stream must keep the message for this consumer."""
        ledger, cursor = self.core.ledger, self.core.cursor
        if not cursor.filter.matches(subject):
            return False
        if seq in ledger.redelivered:
            return True  # even after the last delivery attempt: somebody may want to look at it
        if self.config.ack_policy == "explicit":
            return seq >= cursor.next_seq or seq in ledger.pending or seq in self.upcoming.start_list
        return seq > ledger.floor[1]

    @property
    def needs_all_from(self) -> int:
        """The sequence from which on it needs every message; NEVER if it has a filter."""
        cursor = self.core.cursor
        if cursor.filter.patterns and b">" not in cursor.filter.patterns:
            return NEVER
        if self.config.ack_policy == "explicit":
            return cursor.next_seq
        return self.core.ledger.floor[1] + 1

    def info(self) -> ConsumerInfo:
        return describe(self)
