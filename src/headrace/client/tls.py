"""TLS as a client uses it: whom we trust, who we are, and the bytes of one connection.

Certificates and keys are given as the path of a PEM file or as its contents. They are read whenever a
connection is made, so that a reconnect uses the renewed certificate.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.client.errors import ConnectionFailed

PEM = "-----BEGIN "
CA, CERT, KEY = "the CA (tls ca)", "the client certificate (tls cert)", "the key (tls key)"
RECEIVE_BYTES = 256 * 1024
BLOCKED = -1


@dataclass(frozen=True)
class Tls:
    """What to present and what to accept. To give one, even an empty one, is to insist on TLS."""

    ca: str = ""
    """Of those who may sign the server's certificate; without it, the CAs of this machine are trusted."""
    cert: str = ""
    key: str = ""
    """Of `cert`; may be in the same file."""
    key_password: str = ""
    server_name: str = ""
    """What the server's certificate must say, if that is not the host of the URL."""
    handshake_first: bool = False
    """Before INFO, for servers that are configured so."""
    insecure: bool = False
    """Accept any certificate: anyone on the network path can then read and change everything."""

    def __repr__(self) -> str:
        return "Tls(...)"  # a key may be given as its contents

    def loaded(self) -> Tls:
        """With the contents of its files, for machines that do not have them. Raises ConnectionFailed."""
        self.context()
        return replace(
            self,
            ca=self.ca and _read(self.ca, CA),
            cert=self.cert and _read(self.cert, CERT),
            key=self.key and _read(self.key, KEY),
        )

    def context(self) -> ssl.SSLContext:
        """Raises ConnectionFailed if a file is missing, or is not what it should be."""
        try:
            context = ssl.create_default_context(cadata=_read(self.ca, CA) if self.ca else None)
        except (ssl.SSLError, ValueError):
            raise _useless(CA, self.ca, "there is no certificate in it") from None
        if self.ca:
            # What we are given is trusted, as NATS clients in Go do, even if it is no root.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.key and not self.cert:
            raise ConnectionFailed("a key without its certificate", hint="give the certificate, too")
        if self.cert:
            self._load_certificate(context)
        return context

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        cert = _read(self.cert, CERT)
        if "-----BEGIN CERTIFICATE" not in cert:
            raise _useless(CERT, self.cert, "there is no certificate in it")
        source = self.key or self.cert
        key = _read(source, KEY)
        try:
            with _as_file(cert) as cert_path, _as_file(key) as key_path:
                # A function, because without any password OpenSSL would ask for one at the terminal.
                context.load_cert_chain(cert_path, key_path, lambda: self.key_password)
        except ssl.SSLError as error:
            if "KEY_VALUES_MISMATCH" in (error.reason or ""):
                reason = "it does not belong to the certificate"
            elif "ENCRYPTED" in key:
                reason = "its password (key password) is missing or wrong"
            else:
                reason = "there is no key in it"
            raise _useless(KEY, source, reason) from None


def is_pem(text: str) -> bool:
    """The contents of a file, rather than its path."""
    return PEM in text


def _read(text: str, what: str) -> str:
    """The contents of a PEM file. Raises ConnectionFailed."""
    if is_pem(text):
        return text
    try:
        return Path(text).expanduser().read_text(errors="replace")
    except OSError as error:
        raise ConnectionFailed(f"{what} {text} cannot be read: {error.strerror or error}") from None


def _useless(what: str, text: str, reason: str) -> ConnectionFailed:
    """Names the file, never its contents."""
    where = "" if is_pem(text) else f" {text}"
    return ConnectionFailed(f"{what}{where} cannot be used: {reason}")


@contextmanager
def _as_file(pem: str) -> Iterator[str]:
    """The path of a file in memory: OpenSSL reads certificates and keys from files alone."""
    descriptor = os.memfd_create("pem")
    try:
        os.write(descriptor, pem.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


class _Scratch(threading.local):
    """What was received, on its way to OpenSSL: one for all connections of a thread."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(RECEIVE_BYTES))


_scratch = _Scratch()


class TlsChannel:
    """TLS over a connected socket, which it makes non-blocking.

    Memory BIOs instead of an SSLSocket: one system call receives a quarter of a megabyte, where OpenSSL on a
    descriptor makes two for each record of at most 16 KiB.
    """

    def __init__(self, connected: socket.socket, context: ssl.SSLContext, server_name: str) -> None:
        self._socket = connected
        connected.setblocking(False)
        self._received = ssl.MemoryBIO()
        self._to_send = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_hostname=server_name)
        self._unsent = memoryview(b"")
        self._owed = 0

    def begin_handshake(self) -> None:
        """Send our first message and do not wait: others can begin, too, before `shake_hands` ends it."""
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self._flush()

    def shake_hands(self, timeout: float) -> None:
        """Raises ssl.SSLError, OSError and TimeoutError."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush_until(deadline)
                self._wait(select.POLLIN, deadline)
                self._receive()
            except ssl.SSLError:
                self._flush()  # the alert, which tells the server why
                raise
            else:
                return self._flush_until(deadline)

    def read_into(self, buffer: memoryview) -> int:
        """How many bytes were read; 0: the server has closed the connection; BLOCKED: there are none now.

        Reads all that there is, up to the size of the buffer: BLOCKED means that the socket has no bytes.
        """
        filled = 0
        while filled < len(buffer):
            try:
                count: Any = self._tls.read(len(buffer) - filled, buffer[filled:])
            except ssl.SSLWantReadError:
                if filled:
                    break
                if not self._receive():
                    return BLOCKED
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                break
            else:
                if not count:
                    break
                filled += count
        if self._to_send.pending:
            self._flush()  # the answer to a change of keys
        return filled

    def write(self, data: Any) -> int:
        """How many bytes of `data` are sent. 0: not now; call again with the same data, or more of it."""
        if not self._owed:
            self._owed = self._tls.write(data)
        if not self._flush():
            return 0
        sent, self._owed = self._owed, 0
        return sent

    def submit(self, data: Any) -> int:
        """Encrypt all of `data`, and send what the socket accepts; 0 if something before it is unsent."""
        if not self._flush():
            return 0
        count: int = self._tls.write(data) if len(data) else 0
        self._flush()
        return count

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent) or bool(self._to_send.pending)

    def send_all(self, data: bytes, timeout: float) -> None:
        """Raises OSError, and TimeoutError if the server does not read."""
        deadline = time.monotonic() + timeout
        self._flush_until(deadline)
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
            self._flush_until(deadline)

    # -- the socket -----------------------------------------------------------------------------------------

    def _receive(self) -> bool:
        """Whether there was something: bytes, or the end."""
        try:
            count = self._socket.recv_into(_scratch.buffer)
        except (BlockingIOError, InterruptedError):
            return False
        if count:
            self._received.write(_scratch.buffer[:count])
        else:
            self._received.write_eof()
        return True

    def _flush(self) -> bool:
        """Whether everything is sent."""
        while True:
            if not self._unsent:
                self._unsent = memoryview(self._to_send.read())
                if not self._unsent:
                    return True
            try:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            except (BlockingIOError, InterruptedError):
                return False
            except ConnectionError:
                self._look_for_alert()
                raise

    def _look_for_alert(self) -> None:
        """A server that refuses our certificate says so, and closes: we may notice the latter first."""
        try:
            self._receive()
            self._tls.read(1)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError, ssl.SSLEOFError, ConnectionError):
            return

    def _flush_until(self, deadline: float) -> None:
        while not self._flush():
            self._wait(select.POLLOUT, deadline)

    def _wait(self, events: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._socket, events)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError
