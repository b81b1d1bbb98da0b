"""One request of the system account, from its body to the document of its answer.

Most answers are `{"server": ..., "data": ...}`, or have an `error` with a code: 400 for a body that cannot be
read, 500 for what cannot be done.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from headrace.engine.core.sinks import InboxMessage
from headrace.monitor.documents import Document, Making
from headrace.monitor.endpoint import Context
from headrace.monitor.query import BadQuery
from headrace.monitor.system.answers import (
    Route,
    Unanswered,
    count_subscriptions,
    make_connections,
    make_id,
)
from headrace.monitor.system.options import (
    ClientRequest,
    ConnectionsRequest,
    EventFilterOptions,
    StatszEventOptions,
    SubscriptionsRequest,
)
from headrace.monitor.system.statsz import describe_statsz
from headrace.streams.api.json_requests import PREFIX, unmarshal
from headrace.streams.config import Wire
from headrace.streams.errors import ApiError

BAD_REQUEST, INTERNAL_ERROR = 400, 500
ACCOUNT_TOKEN = 3
"""Which token of $SYS.REQ.ACCOUNT.A.INFO names the account."""
Body = TypeVar("Body", bound=Wire)


class BadBody(Exception):
    """It cannot be read; the text is nats-server's."""


class Call(msgspec.Struct, frozen=True):
    """A request, and what it is about."""

    context: Context
    message: InboxMessage
    account: str = ""
    """Empty: the server."""

    def read(self, kind: type[Body]) -> Body:
        """The body. Raises BadBody."""
        try:
            return unmarshal(self.message.payload, kind)
        except ApiError as error:
            raise BadBody(error.description.removeprefix(PREFIX)) from None

    def read_options(self, kind: type[EventFilterOptions]) -> Any:
        """Those of the body, if there is one. Raises BadBody, and Unanswered if others are asked."""
        if not self.message.payload:
            return kind()
        options = self.read(kind)
        broker = self.context.broker
        if not options.includes(broker.options, broker.server_id):
            raise Unanswered
        return options

    def refuse(self, code: int, reason: str, **fields: None) -> dict[str, Any]:
        error = {"code": code, "description": reason}
        return {"server": self.context.broker.stamp.next(), **fields, "error": error}


def account_of(message: InboxMessage) -> str:
    """The account that a subject names."""
    return message.destination.split(b".")[ACCOUNT_TOKEN].decode(errors="replace")


def answer_route(route: Route, call: Call) -> Document:
    """The answer to most requests. Raises Unanswered."""
    if not call.message.reply:
        raise Unanswered
    try:
        options = call.read_options(route.body)
    except BadBody as error:
        return call.refuse(BAD_REQUEST, str(error))
    try:
        return _enclose(call.context, route.make(call.context, options, call.account))
    except BadQuery as error:
        return call.refuse(INTERNAL_ERROR, error.message, data=None)


def _enclose(context: Context, document: Document) -> Making:
    data = document if isinstance(document, Mapping) else (yield from document)
    return {"server": context.broker.stamp.next(), "data": data}


def answer_action(action: Callable[[], None], call: Call) -> Document:
    """The answer to a request to do something, which has no data. Raises Unanswered."""
    if not call.message.reply:
        raise Unanswered
    try:
        call.read_options(EventFilterOptions)
        action()
    except BadBody as error:
        return call.refuse(BAD_REQUEST, str(error))
    except BadQuery as error:
        return call.refuse(INTERNAL_ERROR, error.message)
    return {"server": call.context.broker.stamp.next()}


def client_of(call: Call) -> int:
    """Which client a request is about. Raises Unanswered if the body does not say."""
    try:
        return call.read(ClientRequest).cid
    except BadBody as error:
        call.context.broker.logger.error(f"Error unmarshalling kick client request: {error}")
        raise Unanswered from None


def answer_id(call: Call) -> Document:
    return make_id(call.context)


def answer_statsz(publish: Callable[[], None], call: Call) -> Document:
    """Without a reply subject, the figures are published for everyone who follows them. Raises Unanswered."""
    try:
        call.read_options(StatszEventOptions)
    except BadBody as error:
        return call.refuse(BAD_REQUEST, str(error))
    if not call.message.reply:
        publish()
        raise Unanswered
    context = call.context
    figures = describe_statsz(context.broker, context.jetstream, context.processor_share)
    return {"server": context.broker.stamp.next(), "statsz": figures}


def answer_connections(call: Call) -> Document:
    """Raises Unanswered."""
    logger = call.context.broker.logger
    if call.message.payload:
        try:
            named = call.read(ConnectionsRequest).acc
        except BadBody as error:
            logger.error(f"Error unmarshalling account connections request message: {error}")
            raise Unanswered from None
        if named not in (None, call.account):
            logger.error("Error unmarshalled account does not match subject")
            raise Unanswered
    return make_connections(call.context, call.account)


def answer_subscriptions(call: Call) -> Document:
    """A number. Raises Unanswered."""
    logger = call.context.broker.logger
    if not call.message.payload:
        logger.error("request requires a body")
        raise Unanswered
    try:
        asked = call.read(SubscriptionsRequest)
        queue = None if asked.queue is None else base64.b64decode(asked.queue, validate=True)
    except (BadBody, binascii.Error) as error:
        logger.error(f"Error unmarshalling account nsubs request message: {error}")
        raise Unanswered from None
    return count_subscriptions(call.context.broker, asked.acc, asked.subject, queue)
