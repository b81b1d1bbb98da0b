"""The client's end of a TLS connection, which tests use like a non-blocking socket."""

from __future__ import annotations

import functools
import socket
import ssl
from contextlib import suppress

from headrace.engine.transports.tls import TlsBuffers, TlsTransport
from tests.certificates import shared

RECORD_BYTES = 16384


@functools.cache
def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shared().server.certificate, shared().server.key)
    return context


@functools.cache
def client_context() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=shared().ca)


def secured(ours: socket.socket, theirs: socket.socket, buffers: TlsBuffers) -> tuple[TlsTransport, TlsEnd]:
    """Shake hands: the transport of our end, and what a test uses in place of their end."""
    transport = TlsTransport(ours.detach(), server_context(), buffers)
    end = TlsEnd(theirs)
    while not (end.shake_hands() and transport.shake_hands()):
        transport.shake_hands()
    return transport, end


class TlsEnd:
    def __init__(self, raw: socket.socket) -> None:
        self.raw = raw
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = client_context().wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._unsent = b""
        self._peeked = b""
        self._is_complete = False

    def shake_hands(self) -> bool:
        try:
            with suppress(BlockingIOError):
                self._read_raw()
            self._session.do_handshake()
            self._is_complete = True
        except ssl.SSLWantReadError:
            pass
        self.flush()
        return self._is_complete

    def fileno(self) -> int:
        return self.raw.fileno()

    def send(self, data: bytes | memoryview) -> int:
        """Encrypt record by record, until the socket accepts no more."""
        accepted = 0
        self.flush()
        while accepted < len(data) and not self._unsent:
            accepted += self._session.write(bytes(data[accepted : accepted + RECORD_BYTES]))
            self.flush()
        if not accepted:
            raise BlockingIOError
        return accepted

    def flush(self) -> None:
        """Send what the socket did not accept before. Raises what it raises if the other end is gone."""
        self._unsent += self._outgoing.read()
        while self._unsent and self.raw.fileno() >= 0:
            try:
                self._unsent = self._unsent[self.raw.send(self._unsent) :]
            except BlockingIOError:
                return

    def recv(self, size: int, flags: int = 0) -> bytes:
        data = self._peeked[:size] or self._decrypt(size)
        if flags & socket.MSG_PEEK:
            self._peeked = self._peeked or data
        else:
            self._peeked = self._peeked[size:]
        return data

    def _decrypt(self, size: int) -> bytes:
        """Reads no more from the socket than it needs, as TCP does: the rest is the other end's to keep.

        Raises BlockingIOError if nothing has arrived, ConnectionResetError after an end that was cut off.
        """
        while True:
            try:
                return self._session.read(size)
            except ssl.SSLWantReadError:
                self._read_raw()
            except ssl.SSLZeroReturnError:
                return b""

    def _read_raw(self) -> None:
        """Raises as a socket does if there is nothing."""
        piece = self.raw.recv(RECORD_BYTES)
        if not piece:
            raise ConnectionResetError
        self._incoming.write(piece)

    def shutdown(self, how: int) -> None:
        if how != socket.SHUT_RD:
            self._say_goodbye()
        self.raw.shutdown(how)

    def close(self) -> None:
        if self.raw.fileno() >= 0:
            self._say_goodbye()
            self.raw.close()

    def _say_goodbye(self) -> None:
        with suppress(ssl.SSLError):  # the other end has not said it, or what it said has not been read
            self._session.unwrap()
        with suppress(BrokenPipeError, ConnectionResetError):
            self.flush()
