"""Reset: a consumer begins anew, after its ack floor or at a sequence that its deliver policy allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.engine.core.sinks import InboxMessage
from headrace.streams import headers
from headrace.streams.api.lenient_json import unmarshal
from headrace.streams.api.wire_types import Uint64
from headrace.streams.config import Wire
from headrace.streams.consumers.info import with_versions
from headrace.streams.errors import ApiError, api_error, store_error
from headrace.streams.formats import parse_store_time
from headrace.streams.slices import wait_in_line

if TYPE_CHECKING:
    from headrace.streams.consumers.consumer import Consumer

TYPE = "io.nats.jetstream.api.v1.consumer_reset_response"


class ResetRequest(Wire):
    go_name = "JSApiConsumerResetRequest"
    seq: Uint64 = 0


def on_reset_request(consumer: Consumer, message: InboxMessage) -> None:
    """Consumers subscribe these themselves: asking one that is not there finds no responder."""
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
    wait_in_line(lambda: _answer_when_counted(consumer, message.reply, seq))


def _refuse(consumer: Consumer, reply: bytes, error: ApiError) -> None:
    answer = {"type": TYPE, "error": error.body, "reset_seq": 0}
    consumer.core.client.publish(reply, msgspec.json.encode(answer))


def _answer_when_counted(consumer: Consumer, reply: bytes, seq: int) -> bool:
    try:
        if not consumer.go_on_counting():
            return False
    except OSError as error:  # it has begun anew; how many messages wait is counted later
        _refuse(consumer, reply, store_error(error))
        return True
    info = msgspec.to_builtins(with_versions(consumer.info()))
    answer = {"type": TYPE, **info, "reset_seq": seq}
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
