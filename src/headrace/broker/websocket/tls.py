"""TLS on the WebSocket port: the handshake comes first, then HTTP."""

from __future__ import annotations

import ssl

from headrace.broker.tls_handshake import TlsState, describe_failure, is_pinned
from headrace.config.tls.context import go_cipher_name, make_context
from headrace.config.tls.settings import TlsSettings
from headrace.engine.transports.tls import TlsBuffers, TlsTransport


class HandshakeFailed(Exception):
    """The handshake failed, or the peer is gone."""


class WebSocketTls:
    """What the peers of the port share. A reload gives it new settings."""

    def __init__(self, settings: TlsSettings) -> None:
        self._buffers = TlsBuffers()
        self.use(settings)

    def use(self, settings: TlsSettings) -> None:
        self._context = make_context(settings)
        self.settings = settings

    def wrap(self, descriptor: int) -> TlsTransport:
        return TlsTransport(descriptor, self._context, self._buffers)

    def shake_hands(self, transport: TlsTransport) -> bool:
        """Continue with what has arrived. Returns whether that was all. Raises HandshakeFailed."""
        try:
            is_complete = transport.shake_hands()
        except ssl.SSLError as error:
            raise HandshakeFailed(describe_failure(error)) from None
        except EOFError:
            raise HandshakeFailed("EOF") from None
        except OSError as error:
            raise HandshakeFailed(f"read tcp: {(error.strerror or str(error)).lower()}") from None
        if is_complete and not is_pinned(certificate_of(transport), self.settings.pinned_certificates):
            raise HandshakeFailed("certificate not pinned")
        return is_complete


def certificate_of(transport: TlsTransport) -> bytes:
    """The peer's, as DER; empty: it has none."""
    assert transport.session is not None
    return transport.session.getpeercert(binary_form=True) or b""


def describe_session(transport: TlsTransport) -> TlsState:
    session = transport.session
    assert session is not None
    cipher = session.cipher()
    certificate = certificate_of(transport)
    return TlsState(
        version=(session.version() or "").removeprefix("TLSv"),
        cipher=go_cipher_name(cipher[0]) if cipher else "",
        is_first=False,
        certificates=(certificate,) if certificate else (),
    )
