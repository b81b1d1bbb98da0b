"""One client connection: what the server decides for it.

The engine's Link reads, parses, delivers and writes. It calls the `on_...` methods below for everything that
is not a message; they run inside the engine's tick, so what they send leaves at its end.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol

from headrace.accounts.authentication import ANONYMOUS, Authenticator, Credentials, Identity
from headrace.broker.connect_options import ConnectOptions, check_info, read_connect, redact_connect
from headrace.broker.credential_checks import Check, CredentialChecks, has_hung_up
from headrace.broker.info import CLIENT_PROTOCOL, ServerInfo
from headrace.broker.timers import EqualTimers
from headrace.broker.violations import VIOLATIONS, encode_error
from headrace.config.options import Options
from headrace.engine.core.trie import InvalidSubject
from headrace.errors import ProtocolError
from headrace.go_formats import quote

if TYPE_CHECKING:
    from headrace.engine.core.interest import Interest
    from headrace.engine.core.link import Link
    from headrace.logs import Logger

OK = b"+OK\r\n"
PING = b"PING\r\n"
SYSTEM_QUEUE = b"_sys_"
RTT_INTERVAL_SECONDS = 3600.0


class ConnectionContext(Protocol):
    """What a connection needs of the broker."""

    options: Options
    logger: Logger
    info: ServerInfo
    interests: dict[str, Interest]
    authenticator: Authenticator
    credential_checks: CredentialChecks
    auth_timers: EqualTimers[Connection]
    first_ping_timers: EqualTimers[Connection]
    ping_timers: EqualTimers[Connection]

    def forget(self, connection: Connection, reason: str) -> None: ...


class Connection:
    __slots__ = (
        "_descriptor",
        "_label",
        "_ping_sent_at",
        "_pings_out",
        "_server",
        "cid",
        "host",
        "identity",
        "link",
        "options",
        "port",
        "rtt",
        "started_at",
        "stopped_at",
    )
    link: Link

    def __init__(self, server: ConnectionContext, cid: int, host: str, port: int) -> None:
        self._server = server
        self.cid = cid
        self.host = host
        self.port = port
        self.options = ConnectOptions()
        self.identity = ANONYMOUS
        self.started_at = time.time()
        self.stopped_at = 0.0
        self.rtt = 0.0
        self._pings_out = 0
        self._ping_sent_at = 0.0
        self._label = f"{host}:{port} - cid:{cid}" if ":" not in host else f"[{host}]:{port} - cid:{cid}"

    def __str__(self) -> str:
        return self._label

    @property
    def user(self) -> str:
        """The name under which it was admitted; empty: nobody in particular."""
        return self.identity.user

    def start(self, link: Link, descriptor: int) -> None:
        """Greet the client; it has just been accepted."""
        server = self._server
        self.link = link
        self._descriptor = descriptor
        link.trace(server.options.trace)
        link.send(server.info.encode(client_id=self.cid, client_ip=self.host))
        self._await_credentials()
        server.first_ping_timers.start(self)
        server.logger.debug(f"{self} - Client connection created")

    # -- called by the engine

    def on_connect(self, json: bytes) -> None:
        server = self._server
        self.rtt = time.time() - self.started_at
        is_first = not self.link.connected
        try:
            self.options = read_connect(json, self.options)
        except ProtocolError as error:
            self.on_violation("connect", error.message.encode())
            return
        if not is_first:
            self.link.unsubscribe_all()
        if server.authenticator.is_slow:
            self._authenticate_in_thread()
        else:
            self._admit(self._authenticate(server.authenticator))

    def on_early_operation(self) -> None:
        """Something else came before CONNECT although the server wants credentials."""
        identity = self._server.authenticator.identify_without_connect()
        if identity is not None:
            self._admit(identity, answers_connect=False)
        else:
            self.on_violation("authorization", b"")

    def on_subscribe(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        options = self._server.options
        limit = options.max_subscription_tokens
        if queue == SYSTEM_QUEUE:
            self.on_violation("reserved_queue", subject)
            return
        if limit and subject.count(b".") + 1 > limit:
            self.on_violation("subject_tokens", subject)
            return
        if 0 < options.max_subscriptions <= len(self.link.subscriptions):
            self.on_violation("subscriptions", subject)
            return
        try:
            self.link.subscribe(subject, queue, sid)
        except InvalidSubject:
            self.on_violation("subject", subject)
            return
        if self.options.verbose:
            self.link.send(OK)

    def on_unsubscribe(self, sid: bytes, maximum: int) -> None:
        if self.options.verbose:
            self.link.send(OK)
        self.link.unsubscribe(sid, maximum)

    def on_first_ping(self) -> None:
        if self.options.protocol >= CLIENT_PROTOCOL:
            self.link.send(self._server.info.encode(client_id=self.cid, client_ip=self.host, connected=True))

    def on_pong(self) -> None:
        self._pings_out = 0
        if self._ping_sent_at:
            self.rtt = time.monotonic() - self._ping_sent_at

    def on_info(self, json: bytes) -> None:
        try:
            check_info(json)
        except ProtocolError as error:
            self.on_violation("info", error.message.encode())

    def on_violation(self, kind: str, detail: bytes) -> None:
        violation = VIOLATIONS[kind]
        text = violation.describe(detail)
        if violation.is_logged:
            if kind == "parse":  # whatever follows the word may be a CONNECT with a typing error, and secrets
                detail = detail.partition(b" ")[0].partition(b"{")[0]
            shown = f": {quote(detail)}" if detail and text == violation.text else ""
            self._server.logger.error(f"{self} - {text or violation.close_reason}{shown}")
        if text:
            self.link.send(encode_error(text))
        if violation.close_reason:
            self.link.close(violation.close_reason)

    def on_trace(self, direction: Literal["in", "out"], operation: bytes, argument: bytes) -> None:
        if operation == b"CONNECT":
            argument = redact_connect(argument)
        arrow = "<<-" if direction == "in" else "->>"
        if operation == b"MSG_PAYLOAD":
            text = f"MSG_PAYLOAD: [{self._traced_payload(argument)}]"
        else:
            text = f"[{b' '.join(filter(None, (operation, argument))).decode(errors='replace').rstrip()}]"
        self._server.logger.trace(f"{self} - {arrow} {text}")

    def _traced_payload(self, payload: bytes) -> str:
        options = self._server.options
        if options.trace_headers:
            payload = payload.partition(b"\r\n\r\n")[0] if payload.startswith(b"NATS/") else b""
        limit = options.max_traced_msg_len
        return quote(payload[:limit] + b"...") if 0 < limit < len(payload) else quote(payload)

    def on_bug(self, error: Exception) -> None:
        text = "".join(traceback.format_exception(error))
        self._server.logger.error(f"{self} - Internal error, closing this connection: {text}")

    def on_closed(self, reason: str) -> None:
        server = self._server
        self.stopped_at = time.time()
        server.credential_checks.drop(self)
        server.auth_timers.stop(self)
        server.first_ping_timers.stop(self)
        server.ping_timers.stop(self)
        server.forget(self, reason)

    # -- called by the broker

    def announce(self) -> None:
        """The server's INFO has changed: tell the client, if it can take that."""
        if self.link.connected and self.options.protocol >= CLIENT_PROTOCOL:
            self.link.send(self._server.info.encode(client_id=self.cid, client_ip=self.host))

    def check_again(self) -> None:
        """Credentials have changed: close the connection if it would not be admitted any more."""
        server = self._server
        if not self.link.connected:
            self._await_credentials()
        elif server.authenticator.is_slow:
            server.credential_checks.check_again(self, self._slow_check(self._on_checked_again))
        elif self._authenticate(server.authenticator) is None:
            self.on_violation("authorization", b"")

    def on_auth_timeout(self) -> None:
        self.on_violation("auth_timeout", b"")

    def on_ping_timer(self) -> None:
        """Ping a client that has been silent; close one that has not answered the last pings."""
        options = self._server.options
        now = time.monotonic()
        wants_rtt = not self._ping_sent_at or now - self._ping_sent_at > RTT_INTERVAL_SECONDS
        if wants_rtt or self.link.idle_seconds >= options.ping_interval:
            if self._pings_out + 1 > options.ping_max:
                self.on_violation("stale", b"")
                return
            self._pings_out += 1
            self._ping_sent_at = now
            self.link.send(PING)
        self._server.ping_timers.start(self)

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
        self.identity = identity
        self.link.join(self._server.interests[identity.account])

    def _authenticate(self, authenticator: Authenticator) -> Identity | None:
        options = self.options
        if options.account or options.new_account:
            return None  # naming an account in CONNECT is no longer allowed
        return authenticator.check(Credentials(options.user, options.password, options.auth_token))

    def _authenticate_in_thread(self) -> None:
        """Hold the link until its turn has come. The clock of the authentication timeout keeps running."""
        if self._server.credential_checks.check(self, self._slow_check(self._on_checked)):
            self.link.hold()
        else:
            self.on_violation("auth_timeout", b"too many clients wait for authentication")

    def _slow_check(self, on_checked: Callable[[Authenticator, Identity | None], None]) -> Check:
        authenticator = self._server.authenticator
        return Check(
            compare=partial(self._authenticate, authenticator),
            on_compared=partial(on_checked, authenticator),
            on_bug=self._on_check_failed,
        )

    def _on_checked(self, authenticator: Authenticator, identity: Identity | None) -> None:
        if self.link.closed:
            return
        if authenticator is not self._server.authenticator:
            self._authenticate_in_thread()  # a reload has changed who is admitted
            if not self.link.closed:
                return
        else:
            self._admit(identity)
        self.link.resume()

    def _on_checked_again(self, authenticator: Authenticator, identity: Identity | None) -> None:
        if identity is None and not self.link.closed and authenticator is self._server.authenticator:
            self.on_violation("authorization", b"")
            self.link.resume()

    def _on_check_failed(self, error: BaseException) -> None:
        """A mistake of ours admits nobody."""
        text = "".join(traceback.format_exception(error))
        self._server.logger.error(f"{self} - Unexpected error in authentication: {text}")
        if not self.link.closed:
            self.on_violation("authorization", b"")
            self.link.resume()

    def has_left(self) -> bool:
        """Asked while the link is held: nobody reads its socket then."""
        return not self.link.closed and has_hung_up(self._descriptor)

    def on_left(self) -> None:
        self.link.close("Client Closed")
        self.link.resume()

    def _admit(self, identity: Identity | None, *, answers_connect: bool = True) -> None:
        options, link = self.options, self.link
        self._server.auth_timers.stop(self)
        if identity is None:
            self._log_refusal()
            self.on_violation("authorization", b"")
            return
        self._join(identity)
        has_headers = options.headers and not self._server.options.no_header_support
        link.configure(
            verbose=options.verbose,
            pedantic=options.pedantic,
            echo=options.echo,
            headers=has_headers,
            no_responders=options.no_responders,
        )
        self._describe()
        if not 0 <= options.protocol <= CLIENT_PROTOCOL:
            self.on_violation("client_protocol", b"")
        elif options.no_responders and not has_headers:
            self.on_violation("no_responders", b"")
        elif options.verbose and answers_connect:
            link.send(OK)

    def _log_refusal(self) -> None:
        if self.options.user:
            self._server.logger.error(f'{self} - authentication error - User "{self.options.user}"')

    def _describe(self) -> None:
        """Log lines name the client's library and the name it gave itself."""
        options = self.options
        version = f"v{options.version}" if options.version else ""
        described = ":".join(filter(None, (version, options.lang, options.name)))
        if described and " - " not in self._label.partition(" - cid:")[2]:
            self._label += f' - "{described}"'
