"""The load generator's side of WebSocket: what it reads, however frames are cut, and whole runs."""

from __future__ import annotations

import random

import pytest

from headrace.bench.clients.load import Load
from headrace.bench.clients.websocket import mask_frame, payloads
from headrace.bench.compare import Row, compare
from headrace.bench.servers import find_server
from headrace.bench.workloads import PublishSubscribe
from tests import websockets as ws
from tests.engine.core.peers import FRAME, peer

CONFIG = 'websocket { listen: "127.0.0.1:-1", no_tls: true }\n'


def server_frames(data: bytes, chance: random.Random) -> bytes:
    """Frames without a mask, of any length."""
    frames = b""
    while data:
        size = chance.choice([1, 2, 125, 126, 1000, 66_000])
        frames += ws.frame(data[:size], key=None)
        data = data[size:]
    return frames


@pytest.mark.parametrize("step", [1, 3, 1000, 0])
def test_messages_are_counted_however_frames_are_cut(step: int) -> None:
    count = 50 if step == 1 else 5_000
    data = server_frames(FRAME * count, random.Random(step))
    load = Load(30.0, in_websocket=True)
    with peer(data, step) as (ours, heard):
        load.add_subscriber(ours.fileno(), count, same_frames=True)
        # The other end knows no WebSocket and answers PINGs with a bare PONG, which is no frame.
        assert load.run() == "closed"
        assert b"PING\r\n" in b"".join(heard)
    assert load.clients[0][1] == count


def test_what_a_client_sends_is_masked() -> None:
    for size in (0, 5, 125, 126, 65_535, 65_536, 70_000):
        framed = mask_frame(b"x" * size)
        head = len(framed) - size
        key = framed[head - 4 : head]
        assert framed == ws.frame(b"x" * size, key=key)


def test_only_whole_frames_are_read_in_a_handshake() -> None:
    data = ws.frame(b"INFO {}\r\n", key=None) + ws.frame(b"x" * 70_000, key=None)
    assert payloads(data) == b"INFO {}\r\n" + b"x" * 70_000
    assert payloads(data[:-1]) == b"INFO {}\r\n"


def test_a_row_with_websocket_runs_against_both_servers() -> None:
    row = Row("w", "w", PublishSubscribe(1, 3, 16, 3_000, in_websocket=True), config=CONFIG)
    servers = [find_server("nats-server"), find_server("headrace")]
    (result,) = compare([row], servers, 1, lambda *_: None)
    assert result.error == ""
    for server in servers:
        (measurement,) = result.measurements[server.name]
        assert [client.messages for client in measurement.sample.clients] == [3_000] * 4


def test_a_server_without_websocket_is_named() -> None:
    row = Row("w", "w", PublishSubscribe(1, 1, 16, 10, in_websocket=True))
    (result,) = compare([row], [find_server("headrace")], 1, lambda *_: None)
    assert "headrace does not listen for WebSocket" in result.error
