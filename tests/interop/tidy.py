"""Leaves a server without streams, so that every session about streams finds it as if it were new."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

from tests.interop.normalise import split_frames
from tests.interop.session import connect_line, pub
from tests.interop.wire import Wire
from tests.servers import Server, keep_streams_directory

REMOVAL_SECONDS = 30.0
POLL_SECONDS = 0.001
_ACCOUNT = re.compile(r"accounts\s*\{\s*(\w+)")


def delete_streams(server: Server) -> None:
    wire = Wire(server.host, server.port)
    wire.read_line()
    wire.write(connect_line() + b"SUB tidy 1\r\n")
    wire.synchronise()
    wire.take()
    while names := _ask(wire, b"$JS.API.STREAM.NAMES").get("streams"):
        for name in names:
            _ask(wire, b"$JS.API.STREAM.DELETE." + name.encode())
    wire.hang_up()
    command = server.process.args
    assert isinstance(command, list)
    if command[0].endswith("nats-server"):
        account = _ACCOUNT.search(Path(command[command.index("-c") + 1]).read_text())
        name = account.group(1) if account else "$G"
        _wait_until_removed(keep_streams_directory(Path(command[command.index("-sd") + 1]), name))


def _wait_until_removed(streams: Path) -> None:
    """nats-server removes files after its answer; a stream that is created before that finds them again."""
    deadline = time.monotonic() + REMOVAL_SECONDS
    while len(os.listdir(streams)) > 1 and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def _ask(wire: Wire, subject: bytes) -> dict[str, list[str]]:
    wire.write(pub(subject, b"", b"tidy"))
    wire.read_messages(1)
    for frame in split_frames(wire.take()):
        if frame.startswith((b"MSG", b"HMSG")):
            answer: dict[str, list[str]] = json.loads(frame.partition(b"\r\n")[2] or b"{}")
            return answer
    return {}
