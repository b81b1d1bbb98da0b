"""One client connection: what the server decides for it.

The engine's Link reads, parses, delivers and writes. It calls the `on_...` methods below for everything that
is not a message; they run inside the engine's tick, so what they send leaves at its end.
"""

from __future__ import annotations

import time
import traceback
from typing import TYPE_CHECKING, Literal

from headrace.accounts.account import Account
from headrace.accounts.authentication import Authenticator
from headrace.accounts.challenge import new_nonce
from headrace.accounts.credentials import ANONYMOUS, Credentials, Identity, stricter
from headrace.broker.admission.credential_checks import has_hung_up
from headrace.broker.admission.slow_check import SlowCheck
from headrace.broker.connect_options import BEFORE_CONNECT, check_info, credentials_of, read_connect
from headrace.broker.connection_context import ConnectionContext
from headrace.broker.info import CLIENT_PROTOCOL
from headrace.broker.labels import describe_client, describe_peer
from headrace.broker.permissions import (
    may_subscribe,
    refusal,
    refusal_in_log,
    removal,
    removal_in_log,
)
from headrace.broker.protocol_trace import Trace
from headrace.broker.tls_handshake import Greeting, TlsDoor, TlsState
from headrace.broker.violations import VIOLATIONS, encode_error
from headrace.broker.websocket.upgrade import WebSocketPeer
from headrace.engine.core.link import NO_LIMIT
from headrace.engine.core.trie import InvalidSubject
from headrace.errors import ProtocolError
from headrace.sharing import share

if TYPE_CHECKING:
    from headrace.broker.message_trace.trace import MessageTrace
    from headrace.engine.core.link import Link

OK = b"+OK\r\n"


class ClientConnection:
    __slots__ = (
        "_described",
        "_descriptor",
        "_greeting",
        "_server",
        "_trace",
        "account",
        "cid",
        "host",
        "identity",
        "link",
        "nonce",
        "options",
        "ping_sent_at",
        "pings_out",
        "port",
        "rtt",
        "started_at",
        "stopped_at",
        "tls",
        "websocket",
    )
    link: Link

    def __init__(
        self,
        server: ConnectionContext,
        cid: int,
        host: str,
        port: int,
        websocket: WebSocketPeer | None = None,
    ) -> None:
        self._server = server
        self.cid = cid
        self.host = host
        self.port = port
        self.options = BEFORE_CONNECT
        self.identity = ANONYMOUS
        self.nonce = ""
        self.account: Account | None = None  # before it is known who it is
        self.started_at = time.time()
        self.stopped_at = 0.0
        self.rtt = 0.0
        self.tls: TlsState | None = None
        self._greeting: Greeting | None = None
        self.pings_out = 0  # without an answer: see stale_connections
        self.ping_sent_at = 0.0
        self._trace: Trace | None = None
        self.websocket = websocket
        self._described = ""  # what it said about itself when it was admitted

    def __str__(self) -> str:
        return describe_peer(self.cid, self.host, self.port, self.websocket) + self._described

    @property
    def user(self) -> str:
        """The name under which it was admitted; empty: nobody in particular."""
        return self.identity.user

    @property
    def connection_type(self) -> Literal["STANDARD", "WEBSOCKET"]:
        """What the types that a user may have are compared with."""
        return "WEBSOCKET" if self.websocket else "STANDARD"

    def start(self, link: Link, descriptor: int, door: TlsDoor | None = None) -> None:
        """Greet the client; it has just been accepted. A link that goes through a door is greeting."""
        server = self._server
        self.link = link
        self._descriptor = descriptor
        link.trace(server.options.trace)
        if server.authenticator.wants_nonce:
            self.nonce = new_nonce()
        server.logger.debug(f"{self} - Client connection created")
        if door is None:
            self.send_info()
            self.on_greeted(None)
        else:
            self._greeting = Greeting(door, self, link, descriptor)
            self._greeting.start()

    # -- called while it is greeted

    def send_info(self, *, tls_required: bool | None = None) -> None:
        info = self._server.info
        self.link.send(
            info.encode(client_id=self.cid, client_ip=self.host, nonce=self.nonce, tls_required=tls_required)
        )

    def on_greeted(self, tls: TlsState | None) -> None:
        self._greeting = None
        self.tls = tls
        self._await_credentials()
        self._server.keepalive.start(self)

    def refuse(self, text: str, reason: str) -> None:
        """Not logged: there may be very many, and the broker counts them."""
        self.link.send(encode_error(text))
        self.link.close(reason)

    # -- called by the engine

    def on_greeting(self) -> None:
        assert self._greeting is not None
        self._greeting.on_ready()

    def on_connect(self, json: bytes) -> None:
        server = self._server
        self.rtt = time.time() - self.started_at
        is_first = not self.link.connected
        try:
            self.options = read_connect(json, self.options)
        except ProtocolError as error:
            self.on_violation("connect", error.message.encode())
            return
        if self.websocket:
            self.options = self.websocket.fill(self.options)
        if not is_first:
            self.link.unsubscribe_all()
        if server.doorkeeper is not None:
            server.waiting.ask(self, server.doorkeeper)
        elif server.authenticator.is_slow:
            SlowCheck(self, server).start()
        else:
            self.admit(self.authenticate(server.authenticator))

    def on_early_operation(self) -> None:
        """Something else came before CONNECT although the server wants credentials."""
        identity = self._server.authenticator.identify_without_connect(self.credentials)
        if identity is not None:
            self.admit(identity, answers_connect=False)
        else:
            self.on_violation("authorization", b"")

    def on_subscribe(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        options = self._server.options
        limit = options.max_subscription_tokens
        if not may_subscribe(self.link.permissions, subject, queue):
            self._server.logger.error(f"{self} - {refusal_in_log(subject, queue, sid)}")
            self.link.send(encode_error(refusal(subject, queue)))
            return
        if limit and subject.count(b".") + 1 > limit:
            self.on_violation("subject_tokens", subject, sid)
            return
        if self._is_at_subscription_limit():
            self.on_violation("subscriptions", subject)
            return
        try:
            self.link.subscribe(subject, queue, sid)
        except InvalidSubject:
            self.on_violation("subject", subject)
            return
        if self.options.verbose:
            self.link.send(OK)

    def _is_at_subscription_limit(self) -> bool:
        count, limit = len(self.link.subscriptions), self._server.options.max_subscriptions
        return 0 < limit <= count or 0 <= self._max_subscriptions() <= count

    def on_unsubscribe(self, sid: bytes, maximum: int) -> None:
        if self.options.verbose:
            self.link.send(OK)
        self.link.unsubscribe(sid, maximum)

    def on_first_ping(self) -> None:
        if self.options.protocol >= CLIENT_PROTOCOL:
            info = self._server.info
            self.link.send(
                info.encode(
                    client_id=self.cid,
                    client_ip=self.host,
                    account=self.account,
                    max_payload=self.link.max_payload,
                )
            )

    def on_pong(self) -> None:
        self._server.keepalive.on_pong(self)

    def on_info(self, json: bytes) -> None:
        try:
            check_info(json)
        except ProtocolError as error:
            self.on_violation("info", error.message.encode())

    def on_violation(self, kind: str, detail: bytes, sid: bytes = b"") -> None:
        violation = VIOLATIONS[kind]
        text = violation.describe(detail)
        if violation.is_logged:
            if kind == "parse":  # whatever follows the word may be a CONNECT with a typing error, and secrets
                detail = detail.partition(b" ")[0].partition(b"{")[0]
            shown = f", SID {sid.decode('utf-8', 'surrogateescape')}" if sid else ""
            self._server.logger.error(f"{self} - {violation.describe_in_log(detail)}{shown}")
        if text:
            self.link.send(encode_error(text))
        if violation.close_reason:
            if kind == "authorization":
                self._server.observer.on_refused(self, violation.close_reason)
            self.link.close(violation.close_reason)

    def on_trace(self, direction: Literal["in", "out"], operation: bytes, argument: bytes) -> None:
        server = self._server
        if self._trace is None:
            self._trace = Trace()
        text = self._trace.describe(direction, operation, argument, server.options)
        server.logger.trace(f"{self} - {text}")

    def on_traced(self, subject: bytes, headers: bytes, size: int) -> MessageTrace | bytes | bool | None:
        return self._server.message_traces.begin(self, subject, headers, size)

    def on_oversized(self, subject: bytes, headers: bytes, size: int) -> None:
        self._server.message_traces.report_oversized(self, subject, headers, size)

    def on_read_error(self, text: str) -> None:
        """What arrives is not what the transport can read; the link is closed after this."""
        self._server.logger.error(f"{self} - read error: {text}")

    def on_bug(self, error: Exception) -> None:
        text = "".join(traceback.format_exception(error))
        self._server.logger.error(f"{self} - Internal error, closing this connection: {text}")

    def on_closed(self, reason: str) -> None:
        server = self._server
        self.stopped_at = time.time()
        if self._greeting is not None:
            self._greeting.stop()
            self._greeting = None
        server.credential_checks.drop(self)
        server.waiting.drop(self)
        server.auth_timers.stop(self)
        server.expiries.stop(self)
        server.keepalive.stop(self)
        if self.account:
            self.account.connections -= 1
            self.account.past.add(self.link)
            self.account.slow_consumers += reason.startswith("Slow Consumer")
            if reason != VIOLATIONS["account_connections"].close_reason:
                server.observer.on_connections(self.account)
        server.forget(self, reason)

    # -- called by the broker

    def announce(self, *, lame_duck: bool = False) -> bool:
        """The server's INFO has changed, or this client is to leave: tell it, if it can take that."""
        if not self.link.connected or self.options.protocol < CLIENT_PROTOCOL:
            return False
        info, limit = self._server.info, self.link.max_payload
        self.link.send(
            info.encode(client_id=self.cid, client_ip=self.host, max_payload=limit, lame_duck=lame_duck)
        )
        return True

    def check_again(self) -> None:
        """Credentials have changed: close the connection if it would not be admitted any more."""
        server = self._server
        if self._greeting is not None:
            return
        if not self.link.connected:
            self._await_credentials()
        elif server.doorkeeper is not None:
            server.waiting.ask_again(self, server.doorkeeper)
        elif server.authenticator.is_slow:
            self.rejoin(server.authenticator.renewed(self.identity))
            SlowCheck(self, server).start_again()
        else:
            self.on_checked_again(self.authenticate(server.authenticator))

    def on_checked_again(self, identity: Identity | None) -> None:
        if not self.link.closed:
            self._keep_or_close(identity)
            self._server.hub.flush_soon()

    def _keep_or_close(self, identity: Identity | None) -> None:
        """As in nats-server, those whose user has left or moved to another account are not told why."""
        users = self._server.options.users if self._server.doorkeeper is None else None
        name = self.options.user
        is_gone = name and users is not None and all(name not in (user.user, user.nkey) for user in users)
        if is_gone or (identity is not None and (not self.account or identity.account != self.account.name)):
            self.link.close("Client Closed")
        elif identity is None:
            self._refuse_credentials()
        else:
            self.rejoin(identity)
            self._server.observer.on_connect(self)

    def on_expired(self) -> None:
        self.close_for("expired")

    def close_for(self, violation: str) -> None:
        """It has lost its right to be connected."""
        text = VIOLATIONS[violation].text
        if text and not VIOLATIONS[violation].is_logged:
            self.debug(text)
        self.on_violation(violation, b"")

    def on_auth_timeout(self) -> None:
        self.on_violation("auth_timeout", b"")

    # -- authentication

    def _await_credentials(self) -> None:
        """If the server wants credentials, nothing but CONNECT is accepted from now on, and not for long."""
        if self._server.authenticator.required:
            self.link.await_authentication()
            self._server.auth_timers.start(self)
        else:
            self._join(ANONYMOUS)

    def _join(self, identity: Identity) -> None:
        """Publish and subscribe in the account of this identity from now on."""
        account = self._server.accounts[identity.account]
        self.identity = identity
        self.link.restrict(self._server.permission_sets.of(identity.permissions))
        is_full = account is not self.account and account.is_full
        if account is not self.account:
            if self.account:
                self.account.connections -= 1
            account.connections += 1
            self.account = account
            if not is_full:
                self._server.observer.on_connections(account)
        self.link.join(account.interest)
        self.link.max_payload = self._max_payload()
        self._server.expiries.start(self, identity.expires_at)
        if is_full:
            self.on_violation("account_connections", b"")
        else:
            self._close_at_subscription_limit()

    def _close_at_subscription_limit(self) -> None:
        """Also if it just has as many as it may: nats-server looks at it that way when an account changes."""
        if 0 <= self._max_subscriptions() <= len(self.link.subscriptions):
            self.on_violation("subscriptions", b"")
            self.link.close("Maximum Subscriptions Exceeded")

    def _max_payload(self) -> int:
        of_account = self.account.options.limits.max_payload if self.account else -1
        limit = stricter(self.identity.limits.payload, of_account)
        return limit if limit >= 0 else NO_LIMIT

    def _max_subscriptions(self) -> int:
        """-1: any number, as far as user and account are concerned."""
        of_account = self.account.options.limits.max_subscriptions if self.account else -1
        return stricter(self.identity.limits.subscriptions, of_account)

    @property
    def credentials(self) -> Credentials:
        return credentials_of(
            self.options,
            nonce=self.nonce,
            host=self.host,
            port=self.port,
            cid=self.cid,
            connection_type=self.connection_type,
            certificate=self.tls.certificate if self.tls else b"",
        )

    def debug(self, text: str) -> None:
        self._server.logger.debug(f"{self} - {text}")

    def error(self, text: str) -> None:
        self._server.logger.error(f"{self} - {text}")

    def warn(self, text: str) -> None:
        self._server.logger.warn(f"{self} - {text}")

    def rejoin(self, identity: Identity) -> None:
        """What it may do may have changed: subscriptions that are no longer allowed end."""
        link = self.link
        before = link.permissions
        self._join(identity)
        if link.permissions is before:
            return
        for subscription in [link.subscriptions[sid] for sid in link.subscriptions]:
            wanted = subscription.subject, subscription.queue, subscription.sid
            if not may_subscribe(link.permissions, subscription.subject, subscription.queue):
                link.unsubscribe(subscription.sid, -1)
                link.send(encode_error(removal(*wanted)))
                self._server.logger.info(removal_in_log(*wanted, self.user))

    def authenticate(self, authenticator: Authenticator) -> Identity | None:
        options = self.options
        if options.account or options.new_account:
            return None  # naming an account in CONNECT is no longer allowed
        return authenticator.check(self.credentials, self)

    def has_left(self) -> bool:
        """Asked while the link is held: nobody reads its socket then."""
        return not self.link.closed and has_hung_up(self._descriptor)

    def on_left(self) -> None:
        self.link.close("Client Closed")
        self.link.resume()

    def admit(self, identity: Identity | None, *, answers_connect: bool = True) -> None:
        options, link = self.options, self.link
        self._server.auth_timers.stop(self)
        if identity is None:
            self._log_refusal()
            self._refuse_credentials()
            return
        self._join(identity)
        if link.closed:
            return
        self._server.observer.on_connect(self)
        has_headers = options.headers and not self._server.options.no_header_support
        link.configure(
            verbose=options.verbose,
            pedantic=options.pedantic,
            echo=options.echo,
            headers=has_headers,
            no_responders=options.no_responders,
        )
        if not self._described:
            account = self._server.accounts[identity.account]
            self._described = share(describe_client(options, identity, account))
        if not 0 <= options.protocol <= CLIENT_PROTOCOL:
            self.on_violation("client_protocol", b"")
        elif options.no_responders and not has_headers:
            self.on_violation("no_responders", b"")
        elif options.verbose and answers_connect:
            link.send(OK)

    def _refuse_credentials(self) -> None:
        self._server.observer.on_bad_credentials(self, VIOLATIONS["authorization"].close_reason)
        self.on_violation("authorization", b"")

    def _log_refusal(self) -> None:
        if label := self.credentials.label:
            self.error(f"authentication error - {label}")
