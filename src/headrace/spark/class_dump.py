"""Lets a running Java write the archive of its classes, for a command that may never end by itself.

A pipeline runs until it is killed, and a Java that is killed writes nothing (see `class_archive`): after a
crash, when it matters most how long a start takes, there would be no archive. So once per Java and Spark,
when such a command has run for a while, its Java writes the archive in between, which takes a few seconds.

The way to ask it is that of `jcmd`, which not every Java has: a file next to which HotSpot looks when it gets
SIGQUIT, and the socket that it then opens. A Java that does not handle the signal does not get it.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

from headrace.spark.class_archive import keep, new_attempt

AFTER_SECONDS = 30.0
"""By then the classes of the first batches are loaded."""
LISTEN_SECONDS = 10.0
POLL_SECONDS = 0.05
PLACE = Path("/tmp")
"""Where HotSpot looks, whatever TMPDIR says."""


def dump_later(java: int, name: str, after: float = AFTER_SECONDS) -> threading.Timer:
    """Have the Java with this process id write the archive of this name, in the background."""
    timer = threading.Timer(after, dump_now, (java, name))
    timer.daemon = True
    timer.start()
    return timer


def dump_now(java: int, name: str) -> Path | None:
    """The archive; None if there is none, for whatever reason: nothing about it is an error."""
    try:
        attempt = new_attempt(name)
        _ask(java, f"VM.cds dynamic_dump {attempt}")
        return keep(attempt, name)
    except OSError:
        return None


def _ask(java: int, command: str) -> str:
    """What `jcmd PID COMMAND` prints. Raises OSError."""
    door = PLACE / f".java_pid{java}"
    if not door.exists():
        _knock(java, door)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(door))
        connection.sendall(f"1\0jcmd\0{command}\0\0\0".encode())
        with connection.makefile("rb") as answer:
            return answer.read().decode(errors="replace")


def _knock(java: int, door: Path) -> None:
    """Have it open its socket."""
    if not _handles(java, signal.SIGQUIT):
        raise OSError("this Java takes no questions")
    asked = PLACE / f".attach_pid{java}"
    asked.touch()
    try:
        os.kill(java, signal.SIGQUIT)
        deadline = time.monotonic() + LISTEN_SECONDS
        while not door.exists():
            if time.monotonic() > deadline:
                raise OSError("this Java does not answer")
            time.sleep(POLL_SECONDS)
    finally:
        asked.unlink(missing_ok=True)


def _handles(process: int, number: signal.Signals) -> bool:
    """Whether it catches the signal, which would end it otherwise."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        name, _, mask = line.partition(":")
        if name == "SigCgt":
            return bool(int(mask, 16) >> (number - 1) & 1)
    return False
