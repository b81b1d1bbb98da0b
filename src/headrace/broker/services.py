"""Services across accounts: requests go to the account that exports the service, answers come back.

A sink in the importing account takes the requests, at the end of the tick. Each is published in the exporting
account, with a reply subject that leads back (responses.py) and a header that says who asks. That account
may import the service itself, and so on. A request that reaches nobody is answered as if it had stayed in
its account.
"""

from __future__ import annotations

import time
from itertools import count

import msgspec

from headrace.accounts.account import Account
from headrace.accounts.directory import Accounts
from headrace.broker.client_info import (
    Info,
    describe_briefly,
    describe_client,
    in_order,
    with_request_info,
)
from headrace.broker.connection import ClientConnection
from headrace.broker.ids import random_id
from headrace.broker.latency_sampling import Headers, is_sampled
from headrace.broker.message_trace.headers import DISABLED, with_destination
from headrace.broker.message_trace.trace import MessageTrace
from headrace.broker.responses import PREFIX, TOKEN_LENGTH, Pending, Responses
from headrace.broker.service_latency import Measured, Measurements
from headrace.config.accounts.import_checks import find_export, service_transform
from headrace.config.identity import ServiceExport, ServiceImport
from headrace.engine.core.hub import Hub
from headrace.engine.core.sinks import Inbox, InboxMessage
from headrace.subjects import grammar
from headrace.subjects.transform import with_wildcards

ACK_PREFIX = b"$JS.ACK."


class Route:
    """One service that an account imports."""

    def __init__(self, importer: Account, exporter: Account, options: ServiceImport) -> None:
        self.importer = importer
        self.exporter = exporter
        self.share = options.share
        self.export: ServiceExport | None = find_export(exporter.options.service_exports, options.subject)
        self._transform = service_transform(options)
        has_wildcards = grammar.has_wildcard(options.subject)
        self.local = grammar.encode(with_wildcards(options.to)[0] if has_wildcards else options.to)
        self._remote = None if has_wildcards else grammar.encode(options.subject)

    def translate(self, subject: bytes) -> bytes:
        """The subject of a request in the exporting account."""
        if self._transform:
            return self._transform.build(subject)
        return subject if self._remote is None else self._remote


class Trip(msgspec.Struct, frozen=True):
    """A request on its way through accounts."""

    publisher: ClientConnection | None
    passed: tuple[ServiceExport, ...] = ()
    info: Info = {}
    share: bool = False


class ImportedServices:
    """What one account imports: a sink with a subscription for each service."""

    def __init__(self, services: Services, account: Account, routes: list[Route]) -> None:
        self._services = services
        self._account = account
        self.inbox = Inbox(services.hub, account.interest, self.receive, True)
        self.inbox.tracer = hold_trace
        self._routes: dict[bytes, Route] = {}
        numbers = count(1)
        for route in routes:
            sid = b"%d" % next(numbers)
            self._routes[sid] = route
            self.inbox.subscribe(route.local, None, sid)

    def close(self) -> None:
        self.inbox.unsubscribe_all()

    def receive(self, messages: list[InboxMessage]) -> None:
        """The requests of the account's own clients."""
        for copies in _same(messages):
            first = copies[0]
            publisher = first.publisher if isinstance(first.publisher, ClientConnection) else None
            if not self.pass_on(copies, Trip(publisher)) and publisher and first.reply:
                self._services.answer_nobody(self._account, first, publisher)
            finish_traces(copies)

    def pass_on(self, messages: list[InboxMessage], trip: Trip) -> bool:
        """Copies of one message. Returns whether one of them, or the message as such, has reached anybody."""
        delivered = [
            self._services.request(route, message, trip)
            for message in messages
            if (route := self._routes.get(message.sid)) is not None
        ]
        return any(delivered) or self._has_others(messages[0].destination)

    def _has_others(self, subject: bytes) -> bool:
        plain, queues = self._account.interest.match(subject)
        return bool(queues) or any(one.owner != self.receive for one in plain)


def hold_trace(trace: MessageTrace, _: bytes) -> bool:
    """For an Inbox whose messages are passed on: the trace waits for that."""
    trace.hold()
    return True


def finish_traces(messages: list[InboxMessage]) -> None:
    for message in messages:
        if message.trace is not None:
            message.trace.finish()


def _same(messages: list[InboxMessage]) -> list[list[InboxMessage]]:
    """Copies of a message, for several imports of its subject, follow each other."""
    groups: list[list[InboxMessage]] = []
    for message in messages:
        if groups:
            last = groups[-1]
            is_copy = (last[0].publisher, last[0].subject, last[0].reply) == (
                message.publisher,
                message.subject,
                message.reply,
            )
            if is_copy and all(one.sid != message.sid for one in last):
                last.append(message)
                continue
        groups.append([message])
    return groups


class Services:
    """The services of all accounts of a server."""

    def __init__(self, hub: Hub, accounts: Accounts, server_name: str, server_hash: str) -> None:
        self.hub = hub
        self._accounts = accounts
        self._server_name = server_name
        self._server_hash = server_hash
        self._imported: dict[str, ImportedServices] = {}
        self._responses: dict[str, Responses] = {}
        self.update()

    def update(self) -> None:
        """Follow the options of the accounts. Requests in progress are still answered."""
        for name in [name for name in self._imported if self._accounts.get(name) is None]:
            self._imported.pop(name).close()
        for name in [name for name in self._responses if self._accounts.get(name) is None]:
            self._responses.pop(name).stop()
        for account in self._accounts:
            self._renew(account)

    def follow(self, changed: Account) -> None:
        """The same for one account, and those that import from it."""
        for account in self._accounts:
            if account is changed or account.imports_from(changed):
                self._renew(account)

    def _renew(self, account: Account) -> None:
        if imported := self._imported.pop(account.name, None):
            imported.close()
        routes = [
            Route(account, exporter, one)
            for one in account.options.service_imports
            if (exporter := self._accounts.get(one.account)) is not None
        ]
        if routes:
            self._imported[account.name] = ImportedServices(self, account, routes)

    def stop(self) -> None:
        for responses in self._responses.values():
            responses.stop()

    def forget(self, connection: ClientConnection) -> None:
        """A client has left: report that to those who measure its requests."""
        for name, responses in self._responses.items():
            for pending in responses.remove_measured(connection):
                if pending.measured and not pending.answered:
                    self._measurements(self._accounts[name]).report_failure(pending.measured, 408)

    # -- requests

    def request(self, route: Route, message: InboxMessage, trip: Trip) -> bool:
        """Send a request to the exporting account. Returns whether anybody got it there."""
        export, exporter = route.export, route.exporter
        if export is not None and any(one is export for one in trip.passed):
            return False
        sampled, asked = is_sampled(export.latency if export else None, message.headers)
        measured = self._measure(route, trip, asked) if sampled else None
        pending = None
        reply = message.reply
        if reply and not reply.startswith(ACK_PREFIX):
            pending = self._responses_of(exporter).add(reply, route.importer, export, measured)
            reply = pending.subject
        elif not reply and measured:
            self._measurements(exporter).report_failure(measured, 400)
        subject = self._map(exporter, route.translate(message.destination))
        info = self._describe(route, trip)
        headers = with_request_info(message.headers, info) if info else message.headers
        passed = (*trip.passed, export) if export else trip.passed
        further = Trip(trip.publisher, passed, info, trip.share if trip.passed else route.share)
        follows = message.trace is not None and export is not None and export.allow_trace
        delivered = self._trace_and_deliver(
            exporter, subject, message, reply, headers, further, follows=follows
        )
        if pending and message.trace is not None and message.trace.is_only:
            self._responses_of(exporter).remove(pending)  # nobody answers what nobody got
            return delivered
        if not delivered and pending:
            self._responses_of(exporter).remove(pending)
            if pending.measured:
                self._measurements(exporter).report_failure(pending.measured, 503)
        return delivered

    def _trace_and_deliver(
        self,
        account: Account,
        subject: bytes,
        message: InboxMessage,
        reply: bytes,
        headers: bytes,
        trip: Trip,
        *,
        follows: bool,
    ) -> bool:
        """Tell the trace, if there is one. It follows into the other account only if that allows it."""
        trace: MessageTrace | None = message.trace
        if trace is None:
            return self._deliver(account, subject, message, reply, headers, trip)
        trace.on_service(account.name, message.destination, subject)
        if follows:
            hidden = f"{PREFIX}{random_id(TOKEN_LENGTH)}.{random_id(TOKEN_LENGTH)}"
            headers = with_destination(headers, hidden)
        elif trace.is_only:
            return False
        else:
            headers = with_destination(headers, DISABLED)
        return self._deliver(account, subject, message, reply, headers, trip, trace if follows else None)

    def _deliver(
        self,
        account: Account,
        subject: bytes,
        message: InboxMessage,
        reply: bytes,
        headers: bytes,
        trip: Trip,
        trace: MessageTrace | None = None,
    ) -> bool:
        """Publish in an account, whose own imports may lead on from there."""
        imported = self._imported.get(account.name)
        shown = message.subject if message.subject != message.destination else None
        if imported:
            imported.inbox.settle()  # what its own clients have asked for before this
        arguments = (account.interest, subject, message.payload, reply, headers)
        if trace is None:
            delivered = self.hub.publish(*arguments, shown=shown, past_shadows=True)
        else:
            delivered = self.hub.publish_traced(trace, *arguments, shown=shown)
        self.hub.flush_soon()
        further = imported.inbox.take() if imported else []
        if imported and further:
            delivered = imported.pass_on(further, trip)
            finish_traces(further)
        return delivered

    @staticmethod
    def _map(account: Account, subject: bytes) -> bytes:
        mappings = account.interest.mappings
        return mappings.apply(subject) if mappings else subject

    def _describe(self, route: Route, trip: Trip) -> Info:
        if trip.publisher is None:
            return trip.info
        if trip.passed and trip.info:
            info = {**trip.info, "svc": route.importer.name}
            if route.share and not trip.share:
                info["server"] = self._server_name
            return in_order(info)
        name = route.importer.name
        if route.share:
            return describe_client(trip.publisher, name, self._server_name)
        return describe_briefly(trip.publisher, name)

    def answer_nobody(self, account: Account, message: InboxMessage, publisher: ClientConnection) -> None:
        """Nobody got a request: notify its publisher immediately, if it asked for that."""
        if not publisher.options.no_responders or publisher.link.closed:
            return
        plain, _ = account.interest.match(message.reply)
        for subscription in plain:
            if subscription.owner is publisher:
                headers = b"NATS/1.0 503\r\nNats-Subject: " + message.subject + b"\r\n\r\n"
                size = len(headers)
                publisher.link.send(
                    b"HMSG %b %b %d %d\r\n%b\r\n" % (message.reply, subscription.sid, size, size, headers)
                )
                self.hub.flush_soon()
                return

    # -- answers

    def _responses_of(self, account: Account) -> Responses:
        responses = self._responses.get(account.name)
        if responses is None:
            responses = self._responses[account.name] = Responses(
                self.hub, account, self._server_hash, self._receive_answers, self._on_expired, hold_trace
            )
        return responses

    def _receive_answers(self, account: Account, messages: list[InboxMessage]) -> None:
        responses = self._responses_of(account)
        for message in messages:
            pending = responses.get(message.destination)
            if pending is not None:
                self._answer(account, responses, pending, message)
        finish_traces(messages)

    def _answer(
        self, account: Account, responses: Responses, pending: Pending, message: InboxMessage
    ) -> None:
        if pending.measured and not pending.answered and isinstance(message.publisher, ClientConnection):
            # As in nats-server, answers of streams are not measured.
            self._measurements(account).report_answer(pending.measured, message.publisher)
        pending.answered = True
        reply = message.reply
        back = None
        if reply and not reply.startswith(ACK_PREFIX):
            back = self._responses_of(pending.requestor).add(reply, account, pending.export, None)
            reply = back.subject
        subject = self._map(pending.requestor, pending.reply)
        trip = Trip(None, (pending.export,) if pending.export else ())
        delivered = self._trace_and_deliver(
            pending.requestor, subject, message, reply, message.headers, trip, follows=False
        )
        if not delivered and back:
            self._responses_of(pending.requestor).remove(back)
        is_end = pending.is_single or not (message.payload or message.headers)
        if not delivered or is_end:
            responses.remove(pending)
        else:
            responses.touch(pending)

    def _on_expired(self, account: Account, pending: Pending) -> None:
        if pending.measured and not pending.answered:
            self._measurements(account).report_failure(pending.measured, 504)
            self.hub.flush()

    # -- measurements

    def _measure(self, route: Route, trip: Trip, headers: Headers | None) -> Measured | None:
        if trip.publisher is None or route.export is None or route.export.latency is None:
            return None
        return Measured(
            subject=grammar.encode(route.export.latency.subject),
            requestor=trip.publisher,
            account=trip.publisher.account.name if trip.publisher.account else route.importer.name,
            share=trip.share if trip.passed else route.share,
            headers=headers,
            started=time.time_ns(),
        )

    def _measurements(self, account: Account) -> Measurements:
        def publish(subject: bytes, payload: bytes) -> None:
            self.hub.publish(account.interest, subject, payload)
            self.hub.flush_soon()

        return Measurements(self._server_name, account.name, publish)
