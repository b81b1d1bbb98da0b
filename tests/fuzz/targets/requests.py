"""The JSON of the JetStream API: decoding, and the rules for what it may say. ApiError is the only way to
refuse.

    byte 0    which request
    byte 1    bits: strict; pedantic; the rules are asked; what was taken is written and read again
    rest      the body

Right is also: a body that is refused has a reason; what was taken can be written and read again, and is the
same; what the rules made of a configuration is a configuration that they leave alone.
"""

from __future__ import annotations

import msgspec

from headrace.engine.streams.json_syntax import examine
from headrace.streams.api.consumer_requests import PageRequest, PauseRequest, UnpinRequest
from headrace.streams.api.json_requests import decode
from headrace.streams.api.message_lookup import MessageDeleteRequest, MessageGetRequest
from headrace.streams.api.stream_requests import StreamInfoRequest, StreamListRequest, StreamPurgeRequest
from headrace.streams.config import CreateConsumerRequest, StreamConfig, Wire
from headrace.streams.consumers.acknowledgements import NakOptions
from headrace.streams.consumers.changes import ResetRequest
from headrace.streams.consumers.pull_request import BadPull, PullBody, parse_request
from headrace.streams.consumers.rules import Limits, check_config, set_defaults
from headrace.streams.errors import ApiError
from headrace.streams.jetstream_limits import AccountResources, ServerResources
from headrace.streams.slices import at_once
from headrace.streams.stream_rules import check_stream_config

STRICT, PEDANTIC, RULES, AGAIN = 1, 2, 4, 8
ACCOUNT = AccountResources({}, ServerResources(max_memory=1 << 30, max_storage=1 << 30))
STREAM = StreamConfig(name="S", subjects=["s.>"])
LIMITS = Limits(1000, 1000, 0, 10)
KINDS: tuple[type[Wire], ...] = (
    StreamConfig,
    CreateConsumerRequest,
    StreamInfoRequest,
    StreamListRequest,
    StreamPurgeRequest,
    MessageGetRequest,
    MessageDeleteRequest,
    PageRequest,
    PauseRequest,
    UnpinRequest,
    ResetRequest,
    NakOptions,
    PullBody,
)


def check_rules(request: Wire, pedantic: bool) -> None:
    if isinstance(request, StreamConfig):
        made = at_once(check_stream_config(request, ACCOUNT, pedantic=pedantic))
        assert at_once(check_stream_config(made, ACCOUNT, pedantic=pedantic)) == made
        msgspec.json.encode(made)
    elif isinstance(request, CreateConsumerRequest):
        set_defaults(request.config, STREAM, LIMITS, pedantic)
        at_once(check_config(request.config, STREAM, LIMITS))
        msgspec.json.encode(request.config)


def check_pull(body: bytes) -> None:
    try:
        parse_request(b"r", body, 1)
    except BadPull as refusal:
        assert str(refusal)


def check(data: bytes) -> None:
    if len(data) < 2:
        return
    kind, body = KINDS[data[0] % len(KINDS)], data[2:]
    if kind is PullBody:
        check_pull(body)
    try:
        request = decode(body, kind, strict=bool(data[1] & STRICT))
    except ApiError as error:
        assert error.body.description
        return
    if data[1] & AGAIN:
        assert examine(body)[0] == ""
        assert decode(msgspec.json.encode(request), kind) == request
    if data[1] & RULES:
        try:
            check_rules(request, bool(data[1] & PEDANTIC))
        except ApiError as error:
            assert error.body.description
