"""The client's side of the NATS protocol, as far as a benchmark needs it: frames, blocks of frames,
connections.

Connections are opened in batches (connect all, write all, then read all) because a run with 10,000 of them
would otherwise wait for 10,000 round trips.
"""

import itertools
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headrace.bench.failure import BenchError

Address = tuple[str, int]

BLOCK_BYTES = 64 * 1024
BATCH_CONNECTIONS = 100
HANDSHAKE_TIMEOUT_SECONDS = 10.0
HANDSHAKE_BYTES_MAX = 64 * 1024
CONNECT = (
    b'CONNECT {"verbose":false,"pedantic":false,"lang":"python","version":"0","name":"headrace bench",'
    b'"protocol":1,"echo":true,"headers":true,"no_responders":true}\r\n'
)


def publish_frame(subject: bytes, payload: bytes) -> bytes:
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)


def subscribe_frame(subject: bytes) -> bytes:
    return b"SUB %b 1\r\n" % subject


def block_of(frame: bytes) -> bytes:
    """As many whole copies of a frame as fit one large write, and at least one."""
    return frame * max(1, BLOCK_BYTES // len(frame))


@contextmanager
def open_connections(address: Address, greetings: Sequence[bytes]) -> Iterator[list[socket.socket]]:
    """One connection per greeting (SUB lines, or nothing), each through CONNECT and PING/PONG when this
    yields.

    They are closed with a reset, so that thousands of them leave no sockets in TIME_WAIT for the next round.
    """
    sockets: list[socket.socket] = []
    try:
        for start in range(0, len(greetings), BATCH_CONNECTIONS):
            batch = greetings[start : start + BATCH_CONNECTIONS]
            opened = [_connect(address, sockets) for _ in batch]
            for connection, greeting in zip(opened, batch, strict=True):
                connection.sendall(CONNECT + greeting + b"PING\r\n")
            for connection in opened:
                _await_pong(connection)
        yield sockets
    except OSError as error:
        raise BenchError(
            f"connection {len(sockets)} of {len(greetings)} to {address[0]}:{address[1]}: {error}"
        ) from error
    finally:
        for connection in sockets:
            connection.close()


def _connect(address: Address, sockets: list[socket.socket]) -> socket.socket:
    connection = socket.create_connection(address, HANDSHAKE_TIMEOUT_SECONDS)
    sockets.append(connection)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    return connection


def _await_pong(connection: socket.socket) -> None:
    """Read to the end of a line with the PONG in or before it: nats-server sends its second INFO after it."""
    received = b""
    for _ in itertools.repeat(None, HANDSHAKE_BYTES_MAX):
        piece = connection.recv(4096)
        received += piece
        if b"-ERR" in received:
            raise BenchError(
                f"the server refused: {received[received.index(b'-ERR') :].decode(errors='replace').strip()}"
            )
        if b"\r\nPONG\r\n" in received and received.endswith(b"\r\n"):
            return
        if not piece or len(received) > HANDSHAKE_BYTES_MAX:
            break
    raise BenchError(f"no PONG in the server's greeting, but {received[-60:]!r}")
