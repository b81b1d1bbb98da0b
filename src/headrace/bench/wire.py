"""The client side of the NATS protocol that a benchmark needs: frames, blocks of frames, connections.

Connections are opened in batches (connect all, write all, then read all) because a run with 10,000 of them
would otherwise wait for 10,000 round trips. So are their TLS handshakes.
"""

import functools
import itertools
import json
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.bench.clients.secure_connection import SecureConnection
from headrace.bench.clients.websocket import mask_frame, payloads, upgrade
from headrace.bench.failure import BenchError
from headrace.client.addresses import Address
from headrace.client.errors import ConnectionFailed
from headrace.client.refusals import explain_tls, no_certificate, no_tls
from headrace.client.tls import Tls, TlsChannel

BLOCK_BYTES = 64 * 1024
BATCH_CONNECTIONS = 100
HANDSHAKE_TIMEOUT_SECONDS = 10.0
HANDSHAKE_BYTES_MAX = 64 * 1024
CONNECT = {
    "verbose": False,
    "pedantic": False,
    "lang": "python",
    "version": "0",
    "name": "headrace bench",
    "protocol": 1,
    "echo": True,
    "headers": True,
    "no_responders": True,
}


def connect_frame(address: Address, nonce: str = "") -> bytes:
    """CONNECT, with the credentials of the address."""
    proof = address.credentials or (address.identity.fields(nonce) if address.identity else {})
    return b"CONNECT %b\r\n" % json.dumps(CONNECT | proof).encode()


def publish_frame(subject: bytes, payload: bytes, headers: bytes = b"") -> bytes:
    if headers:
        length, total = len(headers), len(headers) + len(payload)
        return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, length, total, headers, payload)
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)


def subscribe_frame(subject: bytes, queue: bytes = b"", number: int = 1) -> bytes:
    return b"SUB %b %b %d\r\n" % (subject, queue, number)


def block_of(frame: bytes) -> bytes:
    """As many copies of a frame as fit into one large write, and at least one."""
    return frame * max(1, BLOCK_BYTES // len(frame))


@contextmanager
def open_connections(
    address: Address,
    greetings: Sequence[bytes],
    on_progress: Callable[[float], object] | None = None,
    *,
    in_websocket: bool = False,
) -> Iterator[list[socket.socket]]:
    """One connection per greeting (SUB lines, or nothing), each after CONNECT and PING/PONG.

    They are closed with a reset, so that thousands of them leave no sockets in TIME_WAIT for the next round.
    """
    sockets: list[socket.socket] = []
    try:
        for start in range(0, len(greetings), BATCH_CONNECTIONS):
            batch = greetings[start : start + BATCH_CONNECTIONS]
            for _ in batch:
                sockets.append(_connect(address))
            hellos = _introduce_all(address, sockets, start)
            opened = sockets[start:]
            for connection, hello, greeting in zip(opened, hellos, batch, strict=True):
                first = hello + greeting + b"PING\r\n"
                if in_websocket:
                    upgrade(connection, address)
                    first = mask_frame(first)
                connection.sendall(first)
            for connection in opened:
                # Those that had to know INFO first have read it.
                before = b"\r\n" if is_guarded(address) else b""
                _await_pong(connection, before, in_websocket=in_websocket)
            if on_progress:
                on_progress(len(sockets) / len(greetings))
        yield sockets
    except OSError as error:
        raise BenchError(f"connection {len(sockets)} of {len(greetings)} to {address}: {error}") from error
    except ConnectionFailed as error:
        raise _in_short(error) from None
    finally:
        for connection in sockets:
            connection.close()


def channels(connections: Sequence[socket.socket]) -> dict[int, TlsChannel]:
    """For `Load.encrypt`."""
    return {one.fileno(): one.channel for one in connections if isinstance(one, SecureConnection)}


def is_guarded(address: Address) -> bool:
    """Whether INFO has to be read before CONNECT: it comes before TLS, and has the nonce to sign."""
    return address.secure or address.tls is not None or address.identity is not None


def _connect(address: Address) -> socket.socket:
    connection = socket.create_connection((address.host, address.port), HANDSHAKE_TIMEOUT_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    return connection


def _introduce_all(address: Address, sockets: list[socket.socket], start: int) -> list[bytes]:
    """The CONNECT of every connection from `start` on. Those that get TLS are replaced in the list."""
    if not is_guarded(address):
        return [connect_frame(address)] * (len(sockets) - start)
    introduction, early = _Introduction(address), []
    for number in range(start, len(sockets)):
        sockets[number], info = introduction.begin(sockets[number])
        early.append(info)
    infos = [introduction.end(*pair) for pair in zip(sockets[start:], early, strict=True)]
    return [connect_frame(address, info.get("nonce", "")) for info in infos]


class _Introduction:
    """INFO, and TLS if it is asked for or required.

    In two steps: between them the server works on the handshakes of all connections that have begun.
    """

    def __init__(self, address: Address) -> None:
        self._address, self._tls = address, address.tls or Tls()
        self._insists = address.secure or address.tls is not None

    def begin(self, connection: socket.socket) -> tuple[socket.socket, dict[str, Any] | None]:
        """The connection, and INFO if that is first. Raises BenchError, ConnectionFailed and OSError."""
        if self._tls.handshake_first:
            return self._encrypt(connection), None
        info = _read_info(connection, self._address)
        if self._insists and not (info.get("tls_required") or info.get("tls_available")):
            raise no_tls(self._address)
        if self._insists or info.get("tls_required"):
            if info.get("tls_verify") and not self._tls.cert:
                raise no_certificate(self._address)
            return self._encrypt(connection), info
        return connection, info

    def end(self, connection: socket.socket, info: dict[str, Any] | None) -> dict[str, Any]:
        """INFO. Raises BenchError, ConnectionFailed and OSError."""
        if isinstance(connection, SecureConnection):
            try:
                connection.shake_hands(HANDSHAKE_TIMEOUT_SECONDS)
            except ssl.SSLError as error:
                raise explain_tls(error, self._address) from None
        return _read_info(connection, self._address) if info is None else info

    def _encrypt(self, connection: socket.socket) -> SecureConnection:
        name = self._tls.server_name or self._address.certificate_name
        try:
            return SecureConnection(connection, self._context, name)
        except ssl.SSLError as error:
            raise explain_tls(error, self._address) from None

    @functools.cached_property
    def _context(self) -> ssl.SSLContext:
        return self._tls.context()


def _read_info(connection: socket.socket, address: Address) -> dict[str, Any]:
    """Up to the end of its line: after that the server waits for us."""
    received = b""
    while not received.endswith(b"\r\n") and len(received) < HANDSHAKE_BYTES_MAX:
        piece = connection.recv(4096)
        if not piece:
            break
        received += piece
    if not received.startswith(b"INFO "):
        raise BenchError(f"{address} is not a NATS server")
    info: dict[str, Any] = json.loads(received[5:])
    return info


def _await_pong(connection: socket.socket, before: bytes = b"", *, in_websocket: bool = False) -> None:
    """Read to the end of the line with PONG, or a later one: nats-server sends its second INFO after it."""
    raw = b""
    received = before
    for _ in itertools.repeat(None, HANDSHAKE_BYTES_MAX):
        piece = connection.recv(4096)
        raw += piece
        received = before + (payloads(raw) if in_websocket else raw)
        if b"-ERR" in received:
            refusal = received[received.index(b"-ERR") :].splitlines()[0]
            raise BenchError(f"the server refused: {refusal.decode(errors='replace').strip()}")
        if b"\r\nPONG\r\n" in received and received.endswith(b"\r\n"):
            return
        if not piece or len(received) > HANDSHAKE_BYTES_MAX:
            break
    raise BenchError(f"no PONG in the server's greeting, but {received[-60:]!r}")


def greet(address: Address) -> dict[str, Any]:
    """The server's INFO, after a complete handshake. Raises BenchError with what to do."""
    try:
        with socket.create_connection((address.host, address.port), HANDSHAKE_TIMEOUT_SECONDS) as plain:
            introduction = _Introduction(address)
            connection, early = introduction.begin(plain)
            with connection:
                info = introduction.end(connection, early)
                connection.sendall(connect_frame(address, info.get("nonce", "")) + b"PING\r\n")
                _await_pong(connection, b"\r\n")
                return info
    except ssl.SSLError as error:  # TLS 1.3 reports a missing client certificate this late
        raise _in_short(explain_tls(error, address)) from None
    except ConnectionFailed as error:
        raise _in_short(error) from None
    except ConnectionRefusedError:
        raise BenchError(
            f"no server listens at {address}", hint="start one with `headrace serve`, or use --start headrace"
        ) from None
    except ValueError:
        raise BenchError(f"{address} is not a NATS server") from None
    except OSError as error:
        raise BenchError(f"the server at {address} cannot be reached: {error.strerror or error}") from None
    except BenchError as error:
        if "Authorization" not in str(error):
            raise
        raise BenchError(
            f"the server at {address} does not accept these credentials",
            hint="give --creds or --nkey, or nats://user:password@host:port or nats://token@host:port as URL",
        ) from None


def _in_short(error: ConnectionFailed) -> BenchError:
    return BenchError(str(error), hint=error.hint)
