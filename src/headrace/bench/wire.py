"""The client side of the NATS protocol that a benchmark needs: frames, blocks of frames, connections.

Connections are opened in batches (connect all, write all, then read all) because a run with 10,000 of them
would otherwise wait for 10,000 round trips.
"""

import itertools
import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.bench.failure import BenchError
from headrace.client.addresses import Address

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


def connect_frame(address: Address) -> bytes:
    """CONNECT, with the credentials of the address."""
    return b"CONNECT %b\r\n" % json.dumps(CONNECT | address.credentials).encode()


def publish_frame(subject: bytes, payload: bytes) -> bytes:
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)


def subscribe_frame(subject: bytes, queue: bytes = b"", number: int = 1) -> bytes:
    return b"SUB %b %b %d\r\n" % (subject, queue, number)


def block_of(frame: bytes) -> bytes:
    """As many copies of a frame as fit into one large write, and at least one."""
    return frame * max(1, BLOCK_BYTES // len(frame))


@contextmanager
def open_connections(
    address: Address, greetings: Sequence[bytes], on_progress: Callable[[float], object] | None = None
) -> Iterator[list[socket.socket]]:
    """One connection per greeting (SUB lines, or nothing), each after CONNECT and PING/PONG.

    They are closed with a reset, so that thousands of them leave no sockets in TIME_WAIT for the next round.
    """
    sockets: list[socket.socket] = []
    hello = connect_frame(address)
    try:
        for start in range(0, len(greetings), BATCH_CONNECTIONS):
            batch = greetings[start : start + BATCH_CONNECTIONS]
            opened = [_connect(address, sockets) for _ in batch]
            for connection, greeting in zip(opened, batch, strict=True):
                connection.sendall(hello + greeting + b"PING\r\n")
            for connection in opened:
                _await_pong(connection)
            if on_progress:
                on_progress(len(sockets) / len(greetings))
        yield sockets
    except OSError as error:
        raise BenchError(f"connection {len(sockets)} of {len(greetings)} to {address}: {error}") from error
    finally:
        for connection in sockets:
            connection.close()


def _connect(address: Address, sockets: list[socket.socket]) -> socket.socket:
    connection = socket.create_connection((address.host, address.port), HANDSHAKE_TIMEOUT_SECONDS)
    sockets.append(connection)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    return connection


def _await_pong(connection: socket.socket, received: bytes = b"") -> None:
    """Read to the end of the line with PONG, or a later one: nats-server sends its second INFO after it."""
    for _ in itertools.repeat(None, HANDSHAKE_BYTES_MAX):
        piece = connection.recv(4096)
        received += piece
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
        with socket.create_connection((address.host, address.port), HANDSHAKE_TIMEOUT_SECONDS) as connection:
            with connection.makefile("rb") as lines:
                first = lines.readline(HANDSHAKE_BYTES_MAX)
            if not first.startswith(b"INFO "):
                raise BenchError(f"{address} is not a NATS server")
            info: dict[str, Any] = json.loads(first[5:])
            if info.get("tls_required"):
                raise BenchError(f"the server at {address} requires TLS; the benchmark uses plain TCP")
            connection.sendall(connect_frame(address) + b"PING\r\n")
            _await_pong(connection, b"\r\n")
            return info
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
            hint="give them in the URL: nats://user:password@host:port or nats://token@host:port",
        ) from None
