"""From accept to the first operation where TLS is spoken: who sends INFO when, and when the handshake begins.

                                      INFO, in clear       then
    handshake_first: false            at once              the handshake
    handshake_first: true             after the handshake
    handshake_first: auto, or a time  if nothing has come  the handshake
                                      by then
    allow_non_tls                     as above             whatever the client begins with

A handshake has `timeout` seconds. As long as any of this lasts, the link is greeting (see Hub.attach): the
engine calls `on_ready` when something has arrived, and parses nothing.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from headrace.broker.timers import EqualTimers
from headrace.config.tls.context import go_cipher_name, make_context
from headrace.config.tls.settings import TlsSettings
from headrace.engine.transports.tls import TlsBuffers, TlsTransport

if TYPE_CHECKING:
    from headrace.engine.core.link import Link

HANDSHAKE_RECORD = b"\x16"
HANDSHAKE_FAILED = "TLS Handshake Failure"
THROTTLED = "Connection throttling is active. Please try again later."
NO_TLS = "tls: first record does not look like a TLS handshake"
RATE_SECONDS = 1.0

# What Go calls the errors that clients cause most often. Others keep OpenSSL's words.
GO_REASONS = {
    "WRONG_VERSION_NUMBER": NO_TLS,
    "HTTP_REQUEST": NO_TLS,
    "HTTPS_PROXY_REQUEST": NO_TLS,
    "UNKNOWN_PROTOCOL": NO_TLS,
    "RECORD_LAYER_FAILURE": NO_TLS,
    "PACKET_LENGTH_TOO_LONG": NO_TLS,
    "UNSUPPORTED_PROTOCOL": "tls: client offered only unsupported versions",
    "NO_SHARED_CIPHER": "tls: no cipher suite supported by both client and server",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "tls: client didn't provide a certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "remote error: tls: unknown certificate authority",
    "SSLV3_ALERT_BAD_CERTIFICATE": "remote error: tls: bad certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "remote error: tls: expired certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "remote error: tls: unknown certificate",
}


class TlsState(msgspec.Struct, frozen=True):
    """What was negotiated with a client, kept for monitoring and the log."""

    version: str
    cipher: str
    is_first: bool
    """The handshake came before INFO."""
    certificates: tuple[bytes, ...] = ()
    """Those that the client sent, its own first, as DER."""

    @property
    def certificate(self) -> bytes:
        """The client's own; empty: it has none."""
        return self.certificates[0] if self.certificates else b""


class Greeted(Protocol):
    """Whom a greeting is for."""

    def send_info(self, *, tls_required: bool | None = None) -> None: ...
    def on_greeted(self, tls: TlsState | None) -> None: ...
    def refuse(self, text: str, reason: str) -> None: ...
    def debug(self, text: str) -> None: ...
    def error(self, text: str) -> None: ...


class TlsDoor:
    """What the clients of a listener share.

    A reload gives it new settings: handshakes that have begun continue with the old ones.
    """

    def __init__(self, settings: TlsSettings, *, allow_non_tls: bool, flush: Callable[[], None]) -> None:
        self.buffers = TlsBuffers()
        self._flush = flush
        self.timers: EqualTimers[Greeting] = EqualTimers(settings.timeout, self._on_timeout)
        self.fallback_timers: EqualTimers[Greeting] = EqualTimers(settings.fallback_delay, self._on_fallback)
        self._window_ends = 0.0
        self._handshakes = 0
        self.rejected = 0
        """Handshakes over the limit, since it was last reset."""
        self.rate_limit = settings.rate_limit  # a reload does not change it, as in nats-server
        self._take(settings, allow_non_tls)

    def _take(self, settings: TlsSettings, allow_non_tls: bool) -> None:
        self.context = make_context(settings)
        self.settings = settings
        self.allow_non_tls = allow_non_tls

    def reload(self, settings: TlsSettings, *, allow_non_tls: bool) -> None:
        """Use other settings for those who connect from now on."""
        self._take(settings, allow_non_tls)
        self.timers.seconds = settings.timeout
        self.fallback_timers.seconds = settings.fallback_delay

    def close(self) -> None:
        self.timers.stop_all()
        self.fallback_timers.stop_all()

    def _on_timeout(self, greeting: Greeting) -> None:
        greeting.on_timeout()
        self._flush()

    def _on_fallback(self, greeting: Greeting) -> None:
        greeting.on_fallback()
        self._flush()

    def has_room(self) -> bool:
        """Whether one more handshake may begin, counted as nats-server does."""
        if not self.rate_limit:
            return True
        now = time.monotonic()
        if now > self._window_ends:
            self._handshakes = 0
            self._window_ends = now + RATE_SECONDS
        else:
            self._handshakes += 1
        if self._handshakes < self.rate_limit:
            return True
        self.rejected += 1
        return False


class Greeting:
    """Of one client. It ends with `on_greeted`, or with a link that is closed; then `stop` it."""

    __slots__ = ("_client", "_descriptor", "_door", "_is_first", "_link", "_on_ready", "_transport")

    def __init__(self, door: TlsDoor, client: Greeted, link: Link, descriptor: int) -> None:
        self._door = door
        self._client = client
        self._link = link
        self._descriptor = descriptor
        self._transport: TlsTransport | None = None
        self._is_first = door.settings.handshake_first
        self._on_ready = self._shake_hands

    def start(self) -> None:
        if not self._is_first:
            self._client.send_info()
            self._follow_info()
        elif self._door.settings.fallback_delay:
            self._on_ready = self._begin
            self._door.fallback_timers.start(self)
        else:
            self._await_handshake()

    def on_ready(self) -> None:
        """Something has arrived, or the socket accepts more."""
        self._on_ready()

    def on_fallback(self) -> None:
        """Nothing has arrived: the client waits for INFO."""
        self._is_first = False
        self._client.send_info()
        self._follow_info()

    def on_timeout(self) -> None:
        if self._on_ready == self._see_what_it_is:
            self._finish(None)
        else:
            self._client.debug("TLS handshake timeout")
            self._link.close(HANDSHAKE_FAILED)  # silently: nats-server's message is lost

    def stop(self) -> None:
        self._door.timers.stop(self)
        self._door.fallback_timers.stop(self)

    def _follow_info(self) -> None:
        if self._door.allow_non_tls:
            self._on_ready = self._see_what_it_is
            self._door.timers.start(self)
        else:
            self._await_handshake()

    def _see_what_it_is(self) -> None:
        self.stop()
        if peek(self._descriptor) == HANDSHAKE_RECORD:
            self._begin()
        else:
            self._finish(None)

    def _begin(self) -> None:
        """It has: there is something to read."""
        self.stop()
        self._await_handshake()
        if not self._link.closed:
            self._shake_hands()

    def _await_handshake(self) -> None:
        self._on_ready = self._shake_hands
        if not self._door.has_room():
            self._client.refuse(THROTTLED, "Maximum Connections Exceeded")
            return
        self._client.debug("Starting TLS client connection handshake")
        self._door.timers.start(self)

    def _shake_hands(self) -> None:
        if self._transport is None:  # not before something has come: memory is for those who do
            self._transport = TlsTransport(self._descriptor, self._door.context, self._door.buffers)
        try:
            is_complete = self._transport.shake_hands()
        except ssl.SSLError as error:
            self._fail(describe_failure(error))
        except EOFError:
            self._fail("EOF")
        except OSError as error:
            self._fail(f"read tcp: {(error.strerror or str(error)).lower()}")
        else:
            if is_complete:
                self._complete(self._transport)
            else:
                self._link.await_greeting(self._transport.wants_write)

    def _complete(self, transport: TlsTransport) -> None:
        session = transport.session
        assert session is not None
        certificates = peer_certificates(session)
        self._link.end_greeting(transport)
        if not is_pinned(certificates[0] if certificates else b"", self._door.settings.pinned_certificates):
            self._fail("certificate not pinned")
            return
        cipher = session.cipher()
        state = TlsState(
            version=(session.version() or "").removeprefix("TLSv"),
            cipher=go_cipher_name(cipher[0]) if cipher else "",
            is_first=self._is_first,
            certificates=certificates,
        )
        self._client.debug("TLS handshake complete")
        self._client.debug(f"TLS version {state.version}, cipher suite {state.cipher}")
        self._finish(state)

    def _finish(self, state: TlsState | None) -> None:
        self.stop()
        if state is None:
            self._link.end_greeting()
        elif state.is_first:
            self._client.send_info(tls_required=True)
        self._client.on_greeted(state)

    def _fail(self, reason: str) -> None:
        self.stop()
        log = self._client.debug if reason == NO_TLS else self._client.error
        log(f"TLS handshake error: {reason}")
        self._link.close(HANDSHAKE_FAILED)


def peek(descriptor: int) -> bytes:
    """The first byte that has arrived, which stays where it is; empty at the end, or if the peer is gone."""
    peeking = socket.socket(fileno=descriptor)
    try:
        return peeking.recv(1, socket.MSG_PEEK)
    except OSError:  # the engine, which reads next, finds the same and says so
        return b""
    finally:
        peeking.detach()


def peer_certificates(session: ssl.SSLObject) -> tuple[bytes, ...]:
    own = session.getpeercert(binary_form=True)
    if not own:
        return ()
    get_chain = getattr(session, "get_unverified_chain", None)  # since Python 3.13
    return tuple(get_chain()) if get_chain else (own,)


def is_pinned(certificate: bytes, pins: frozenset[str]) -> bool:
    """Whether a client's certificate is one of those that are accepted. Without pins, all are."""
    if not pins:
        return True
    if not certificate:
        return False
    from headrace.accounts.certificates import pin  # a server without client certificates does not load it

    return pin(certificate) in pins


def describe_failure(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {error.verify_message}"
    return GO_REASONS.get(
        error.reason or "", f"tls: {(error.reason or str(error)).replace('_', ' ').lower()}"
    )
