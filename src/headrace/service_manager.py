"""Tells the service manager (systemd, `Type=notify`) what the server is doing: sd_notify(3), in a few lines.

The manager names a socket in the environment; a message is a datagram of lines. Without one, as in a
terminal, nothing is sent. A manager that does not listen does not stop the server.

    READY=1        clients can connect, after recovery
    RELOADING=1    the configuration is read again; READY=1 follows, also after a mistake in it
    STOPPING=1     it was told to stop
    WATCHDOG=1     the event loop is alive; sent twice in the time that the manager allows
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Iterator, Mapping

MICROSECONDS = 1_000_000


class ServiceManager:
    """`address` is that of its socket; empty: there is none."""

    def __init__(self, address: str = "", watchdog_seconds: float = 0.0) -> None:
        self._address = address
        self._watchdog_seconds = watchdog_seconds
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def of_environment(cls, variables: Mapping[str, str] = os.environ) -> ServiceManager:
        """The one that started this process."""
        return cls(variables.get("NOTIFY_SOCKET", ""), _watchdog_seconds(variables))

    def ready(self, status: str) -> None:
        """From here on a watchdog, if there is one, learns that the event loop is alive."""
        self._send("READY=1", f"STATUS={status}")
        if self._timer is None and self._address and self._watchdog_seconds:
            self._feed_watchdog()

    def stopping(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._send("STOPPING=1", "STATUS=Stopping")

    @contextlib.contextmanager
    def reloading(self) -> Iterator[None]:
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            yield
        finally:
            self._send("READY=1")

    def _feed_watchdog(self) -> None:
        self._send("WATCHDOG=1")
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._watchdog_seconds / 2, self._feed_watchdog)

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        # A name that begins with @ is in Linux's abstract namespace.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with (
            contextlib.suppress(OSError),  # nobody listens, or not fast enough: what it misses is not ours
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notify,
        ):
            notify.setblocking(False)
            notify.sendto("\n".join(lines).encode(), address)


def _watchdog_seconds(variables: Mapping[str, str]) -> float:
    """0: none, or it is for another process."""
    try:
        microseconds = int(variables.get("WATCHDOG_USEC", "0"))
        process = int(variables.get("WATCHDOG_PID", str(os.getpid())))
    except ValueError:
        return 0.0
    return microseconds / MICROSECONDS if process == os.getpid() and microseconds > 0 else 0.0


SILENT = ServiceManager()
