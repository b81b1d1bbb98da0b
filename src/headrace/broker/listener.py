"""The listening socket: accepts, and backs off when the machine is out of descriptors."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

from headrace.config.options import ANY_FREE_PORT
from headrace.errors import UsageError
from headrace.logs import Logger
from headrace.sharing import share

ACCEPTS_PER_TURN = 64
BACKLOG = 4096
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
BACK_OFF_SECONDS = 0.1
COMPLAINT_SECONDS = 10.0
HINTS = {
    errno.EADDRINUSE: "another server uses this port: choose one with -p, or -p -1 for any free one",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "ports below 1024 need privileges",
}
MAX_PORT = 65535

WILDCARD_HOSTS = ("", "0.0.0.0", "::")
MAPPED_IPV4_PREFIX = "::ffff:"  # how an IPv4 client looks on a socket for both families


def listen(host: str, port: int) -> socket.socket:
    """A non-blocking listening socket; port -1 means any free one. Raises UsageError."""
    return start_listening(reserve(host, port), host)


def reserve(host: str, port: int) -> socket.socket:
    """A socket that has its address, and does not listen yet: nobody can connect. Raises UsageError.

    As in Go, a wildcard host of either family is for both.
    """
    if not ANY_FREE_PORT <= port <= MAX_PORT:
        raise UsageError(
            f"listen tcp: address {port}: invalid port", hint=f"a port is between 0 and {MAX_PORT}"
        )
    if host in WILDCARD_HOSTS and socket.has_dualstack_ipv6():
        return bind(socket.AF_INET6, ("::", max(port, 0)), host)
    try:
        family, *_, address = socket.getaddrinfo(host, max(port, 0), type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such host"
        raise UsageError(f"listen tcp: lookup {host}: {reason}", hint="check the host name") from None
    return bind(family, address, host)


def bind(family: int, address: Any, host: str) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host not in WILDCARD_HOSTS)
        listener.bind(address)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise _cannot_listen(host, address[1], error) from None
    return listener


def start_listening(reserved: socket.socket, host: str) -> socket.socket:
    """The same socket, to which clients can connect now. Raises UsageError."""
    try:
        reserved.listen(BACKLOG)
    except OSError as error:
        port = reserved.getsockname()[1]
        reserved.close()
        raise _cannot_listen(host, port, error) from None
    return reserved


def _cannot_listen(host: str, port: int, error: OSError) -> UsageError:
    reason = (error.strerror or str(error)).lower()
    return UsageError(
        f"listen tcp {join_address(host, port)}: bind: {reason}", hint=HINTS.get(error.errno or 0, "")
    )


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Listener:
    """Hands every accepted socket to `on_accept(socket, host, port)` until it is closed."""

    def __init__(
        self, listening: socket.socket, on_accept: Callable[[socket.socket, str, int], None], logger: Logger
    ) -> None:
        self._socket = listening
        self._on_accept = on_accept
        self._logger = logger
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._complained_at = -COMPLAINT_SECONDS
        self.address: tuple[str, int] = listening.getsockname()[:2]
        self._loop.add_reader(listening, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                self._back_off(error)
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            host = share(address[0].removeprefix(MAPPED_IPV4_PREFIX))  # many come from the same one
            self._on_accept(accepted, host, address[1])

    def _back_off(self, error: OSError) -> None:
        """The connection waits in the kernel's queue; without a pause the loop would spin on it."""
        now = self._loop.time()
        if now - self._complained_at > COMPLAINT_SECONDS:
            self._complained_at = now
            self._logger.error(f"Cannot accept connections for now: {(error.strerror or str(error)).lower()}")
        self._loop.remove_reader(self._socket)
        self._pause = self._loop.call_later(BACK_OFF_SECONDS, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        if self._pause:
            self._pause.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
