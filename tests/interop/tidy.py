"""Leaves a server without streams, so that every session about streams finds it as if it were new."""

from __future__ import annotations

import json

from tests.interop.normalise import split_frames
from tests.interop.session import connect_line, pub
from tests.interop.wire import Wire
from tests.servers import Server


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


def _ask(wire: Wire, subject: bytes) -> dict[str, list[str]]:
    wire.write(pub(subject, b"", b"tidy"))
    wire.read_messages(1)
    for frame in split_frames(wire.take()):
        if frame.startswith((b"MSG", b"HMSG")):
            answer: dict[str, list[str]] = json.loads(frame.partition(b"\r\n")[2] or b"{}")
            return answer
    return {}
