"""A client that speaks TLS, for sessions about it: when it shakes hands, and with which certificate."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Literal

from tests.certificates import shared
from tests.interop.wire import ANSWER_SECONDS, Wire

PLAIN = "plain"
"""The connection of a session with this name does not use TLS."""


@dataclass(frozen=True)
class TlsClient:
    when: Literal["after INFO", "first"] = "after INFO"
    certificate: str = ""
    """The file of its own one, with its key in `<name>-key.pem`."""
    trusts: Literal["authority", "nobody"] = "authority"
    host: str = "localhost"
    version: Literal["", "1.2", "1.3"] = ""
    """Only this one."""
    ciphers: str = ""

    def context(self) -> ssl.SSLContext:
        ca = shared().ca if self.trusts == "authority" else shared().stranger.certificate
        context = ssl.create_default_context(cafile=ca)
        if self.certificate:
            context.load_cert_chain(self.certificate, self.certificate.replace(".pem", "-key.pem"))
        if self.version:
            version = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}[self.version]
            context.minimum_version = context.maximum_version = version
        if self.ciphers:
            context.set_ciphers(self.ciphers)
        return context


class TlsWire(Wire):
    """Notes `<refused>` where the handshake fails, and what was agreed on where it does not."""

    def __init__(self, host: str, port: int, client: TlsClient) -> None:
        super().__init__(host, port)
        self._client = client

    def greet(self) -> None:
        if self._client.when == "first":
            self._shake_hands()
            self.read_line()
        else:
            self.read_line()
            self._shake_hands()

    def _shake_hands(self) -> None:
        if self.is_closed:
            return
        self._socket.settimeout(ANSWER_SECONDS)
        try:
            self._socket = self._client.context().wrap_socket(self._socket, server_hostname=self._client.host)
        except OSError:
            self._received += b"<refused>\r\n"
            self.is_closed = True
            return
        self._received += b"<%s>\r\n" % (self._socket.version() or "").encode()

    def hang_up(self, last_word: bytes = b"") -> None:
        if self.is_closed:
            self._socket.close()
            return
        try:
            self._write(last_word)
            assert isinstance(self._socket, ssl.SSLSocket)
            self._socket.settimeout(ANSWER_SECONDS)
            self._socket.unwrap().close()
        except (OSError, ValueError):
            self._socket.close()
        self.is_closed = True


def open_tls_wire(host: str, port: int, name: str, client: TlsClient) -> Wire:
    """A connection, greeted as its session wants it."""
    if name.startswith(PLAIN):
        wire = Wire(host, port)
        if client.when != "first":
            wire.read_line()
        return wire
    secured = TlsWire(host, port, client)
    secured.greet()
    return secured
