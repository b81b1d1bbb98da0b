"""The other end of a load: a socket pair whose far side sends what a server would send."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

FRAME = b"MSG bench 1 5\r\nhello\r\n"


@contextmanager
def peer(data: bytes, step: int = 0) -> Iterator[tuple[socket.socket, list[bytes]]]:
    """A connection whose other end sends `data` (in pieces of `step`), then answers every PING."""
    ours, theirs = socket.socketpair()
    heard: list[bytes] = []

    def serve() -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # a run that has seen enough hangs up
            for start in range(0, len(data), step or len(data) or 1):
                theirs.sendall(data[start : start + (step or len(data))])
            while piece := theirs.recv(65536):
                heard.append(piece)
                if pings := piece.count(
                    b"PING\r\n"
                ):  # to send nothing fails, too, where somebody has hung up
                    theirs.sendall(b"PONG\r\n" * pings)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield ours, heard
    finally:
        ours.shutdown(socket.SHUT_RDWR)
        thread.join()
        ours.close()
        theirs.close()
