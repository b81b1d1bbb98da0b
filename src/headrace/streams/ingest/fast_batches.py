"""Fast batches: a publisher streams messages and gets an acknowledgement for many at a time.

The reply subject says which batch a message belongs to: `<prefix>.<id>.<flow>.<gap>.<seq>.<operation>.$FI`.
Messages are stored as they arrive. A gap in the sequence ends the batch, or is only reported if the publisher
said `ok`. The publisher keeps two acknowledgements' worth of messages in flight, each for `msgs` messages;
with more batches at a time each gets fewer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from headrace.streams import headers
from headrace.streams.errors import ApiError, ErrorBody, api_error
from headrace.streams.ingest.acknowledgements import encode_batch, encode_error, encode_stored
from headrace.streams.ingest.batches import BatchLimits
from headrace.streams.ingest.publication import Publication
from headrace.streams.ingest.staged import DuplicateInBatch, Staged

if TYPE_CHECKING:
    from headrace.streams.ingest.intake import Intake

SUFFIX = b".$FI"
START, APPEND, COMMIT, COMMIT_END_OF_BATCH, PING = range(5)
MAXIMUM_ID_LENGTH = 64
MAXIMUM_FLOW = 500
DEFAULT_FLOW = 10


class Order(NamedTuple):
    """The fields of a message's reply subject."""

    batch_id: bytes
    flow: int
    is_gap_ok: bool
    seq: int
    operation: int

    @property
    def commits(self) -> bool:
        return self.operation in (COMMIT, COMMIT_END_OF_BATCH)


class FlowAck(msgspec.Struct, tag="ack"):
    seq: int
    msgs: int


class FlowGap(msgspec.Struct, tag="gap"):
    last_seq: int
    seq: int


class FlowError(msgspec.Struct, tag="err"):
    seq: int
    error: ErrorBody


class _Batch:
    def __init__(self, order: Order, flow: int) -> None:
        self.is_gap_ok = order.is_gap_ok
        self.maximum_flow = order.flow
        self.flow = flow  # messages per acknowledgement
        self.last_seq = 0  # of the batch's messages that came in
        self.acknowledged_seq = 0
        self.stream_seq = 0
        self.active_at = 0.0
        self.timer: asyncio.TimerHandle | None = None


def is_fast(reply: bytes) -> bool:
    return len(reply) > len(SUFFIX) and reply.endswith(SUFFIX)


def parse_order(reply: bytes) -> Order | None:
    """None if the subject does not have this form."""
    tokens = reply.split(b".")[:-1]
    if len(tokens) < 6:
        return None
    batch_id, flow, gap, seq, operation = tokens[-5:]
    if not operation.isdigit() or not int(operation[:9]) <= PING or not seq.isdigit() or len(seq) > 20:
        return None
    order = Order(batch_id, _read_flow(flow), gap == b"ok", int(seq), int(operation[:9]))
    if gap not in (b"ok", b"fail") or not 0 < order.seq < 2**64 - 1:
        return None
    if order.seq == 1 and order.operation in (COMMIT_END_OF_BATCH, APPEND):
        return None
    return None if order.operation == START and order.seq != 1 else order


def _read_flow(digits: bytes) -> int:
    flow = int(digits[:9]) if digits.isdigit() else 0
    return min(flow, 65535) if flow > 0 else DEFAULT_FLOW


class FastBatches:
    """The fast batches of one stream."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._stream = intake.stream
        self._batches: dict[bytes, _Batch] = {}
        self._in_flight = intake.stream.jetstream.resources.fast_batches
        limits = intake.stream.jetstream.options.jetstream_limits
        self._limits = BatchLimits(limits, per_stream=1000, in_all=50_000)

    def stop(self) -> None:
        for batch_id in list(self._batches):
            self._drop(batch_id)

    def on_message(self, publication: Publication) -> None:
        reply = publication.reply
        try:
            order = self._check(publication)
            batch = self._batches.get(order.batch_id) or self._start(order)
            self._check_api_level(order.batch_id, publication)
        except ApiError as error:
            self._intake.sink.answer(reply, encode_error(self._stream.name, error))
            return
        batch.active_at = asyncio.get_running_loop().time()
        if order.operation == PING:
            self._on_ping(order, batch, reply)
        elif self._is_in_order(order, batch, reply):
            self._on_data(order, batch, publication)

    def _check(self, publication: Publication) -> Order:
        checks = self._intake.checks
        checks.check_sealed()
        self._intake.writer.check_room(publication)
        checks.check_size(publication)
        if not self._stream.config.allow_batched:
            raise api_error("batch_publish_disabled")
        order = parse_order(publication.reply)
        if order is None:
            raise api_error("batch_publish_invalid_pattern")
        if len(order.batch_id) > MAXIMUM_ID_LENGTH:
            raise api_error("batch_publish_invalid_batch_id")
        return order

    def _start(self, order: Order) -> _Batch:
        if order.seq != 1 or order.operation == PING:
            raise api_error("batch_publish_unknown_batch_id")
        if len(self._batches) >= self._limits.per_stream or self._in_flight.count >= self._limits.in_all:
            raise api_error("batch_publish_too_many_inflight")
        self._in_flight.count += 1
        flow = 1 if self._batches else min(MAXIMUM_FLOW, order.flow)
        batch = self._batches[order.batch_id] = _Batch(order, flow)
        batch.active_at = asyncio.get_running_loop().time()
        self._watch(order.batch_id, batch, self._limits.timeout)
        return batch

    def _check_api_level(self, batch_id: bytes, publication: Publication) -> None:
        if headers.is_level_too_high(publication.headers):
            self._drop(batch_id)
            raise api_error("required_api_level")
        publication.headers = headers.remove(publication.headers, headers.REQUIRED_API_LEVEL)

    def _on_ping(self, order: Order, batch: _Batch, reply: bytes) -> None:
        """The publisher has received nothing for a while, or asks whether everything has arrived."""
        if order.seq > batch.last_seq:
            self._send_flow_status(reply, FlowGap(batch.last_seq + 1, order.seq + 1))
            if not batch.is_gap_ok:
                self._commit(order.batch_id, batch, reply)
                return
            batch.last_seq = order.seq
            if self._check_flow(batch, reply):
                return
        self._send_flow_status(reply, FlowAck(batch.acknowledged_seq, batch.flow))

    def _is_in_order(self, order: Order, batch: _Batch, reply: bytes) -> bool:
        """Count the message. A gap is reported; if it is not allowed, the batch ends before it."""
        wanted = batch.last_seq + 1
        if order.seq != wanted:
            self._send_flow_status(reply, FlowGap(wanted, order.seq))
        if order.seq != wanted and not (batch.is_gap_ok and order.seq > wanted):
            self._commit(order.batch_id, batch, reply)
            return False
        if order.operation == COMMIT_END_OF_BATCH:
            batch.last_seq = order.seq - 1
            self._commit(order.batch_id, batch, reply)
            return False
        batch.last_seq = order.seq
        return True

    def _on_data(self, order: Order, batch: _Batch, publication: Publication) -> None:
        intake, reply = self._intake, publication.reply
        if order.seq == 1 and not order.commits:
            self._send_flow_status(reply, FlowAck(0, batch.flow))
        publication.subject = intake.transformed(publication.subject)
        try:
            Staged(intake.checks).check(publication)
        except ApiError as error:
            self._on_refused(order, batch, reply, error)
            return
        try:
            batch.stream_seq = intake.accept_checked([publication])
        except ApiError as error:
            intake.sink.answer(reply, encode_error(self._stream.name, error))
            return
        if order.commits:
            self._commit(order.batch_id, batch, reply)
        else:
            self._check_flow(batch, reply)

    def _on_refused(self, order: Order, batch: _Batch, reply: bytes, error: ApiError) -> None:
        is_duplicate = isinstance(error, DuplicateInBatch)
        if is_duplicate:
            self._check_flow(batch, reply)
            if not order.commits:
                return
        if not order.is_gap_ok and batch.last_seq == 1:  # as if it had been a single publish
            self._drop(order.batch_id)
            self._intake.sink.answer(reply, self._encode_single(order, error))
            return
        if not is_duplicate:
            self._send_flow_status(reply, FlowError(order.seq, error.body))
        if order.is_gap_ok and not order.commits:
            return
        if not is_duplicate:
            batch.last_seq -= 1
        self._commit(order.batch_id, batch, reply)

    def _encode_single(self, order: Order, error: ApiError) -> bytes:
        if isinstance(error, DuplicateInBatch) and error.seq:
            details = encode_batch(order.batch_id, order.seq, is_duplicate=True)
            return encode_stored(self._intake.sink, error.seq, details)
        return encode_error(self._stream.name, error)

    def _check_flow(self, batch: _Batch, reply: bytes) -> bool:
        """Acknowledge if enough messages have arrived since, and adjust how many that is next time."""
        behind = batch.last_seq - batch.acknowledged_seq
        if behind < batch.flow:
            return False
        batch.acknowledged_seq += behind // batch.flow * batch.flow
        fair = min(max(MAXIMUM_FLOW // max(len(self._batches), 1), 1), batch.maximum_flow)
        if batch.flow < fair:
            batch.flow = min(batch.flow * 2, fair)
        elif batch.flow > fair:
            batch.flow = max(batch.flow // 2, fair)
        self._send_flow_status(reply, FlowAck(batch.acknowledged_seq, batch.flow))
        return True

    def _commit(self, batch_id: bytes, batch: _Batch, reply: bytes) -> None:
        """The batch is complete: acknowledge it."""
        self._drop(batch_id)
        details = encode_batch(batch_id, batch.last_seq)
        self._intake.sink.answer(reply, encode_stored(self._intake.sink, batch.stream_seq, details))

    def _send_flow_status(self, reply: bytes, message: FlowAck | FlowGap | FlowError) -> None:
        self._intake.sink.answer(reply, msgspec.json.encode(message))

    def _watch(self, batch_id: bytes, batch: _Batch, delay: float) -> None:
        loop = asyncio.get_running_loop()

        def look() -> None:
            left = batch.active_at + self._limits.timeout - loop.time()
            if left <= 0:
                self._drop(batch_id)
            else:
                self._watch(batch_id, batch, left)

        batch.timer = loop.call_later(delay, look)

    def _drop(self, batch_id: bytes) -> None:
        batch = self._batches.pop(batch_id)
        self._in_flight.count -= 1
        if batch.timer is not None:
            batch.timer.cancel()
