"""A disk that hangs: publishers wait, and the server's buffers are bounded."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sanitizers import behind_them
from tests.streams.peers import jetstream_server

SOURCE = Path(__file__).with_name("held_disk.c")
MIB = 1024 * 1024
PAYLOAD = b"x" * (MIB - 1024)
MESSAGES = 200
MOST_HELD = 64 * MIB
IN_SOCKETS = 32 * MIB
"""What the kernel, and an incomplete frame, may hold in addition."""
PINGS = 30


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("held") / "held_disk.so"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    compiler = compiler if shutil.which(compiler) else "cc"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", made, SOURCE, "-ldl"], check=True)
    return made


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=50)
    connection.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nPING\r\n')
    await_text(connection, b"PONG\r\n")
    return connection


def await_text(connection: socket.socket, text: bytes, count: int = 1) -> None:
    received = b""
    while received.count(text) < count:
        piece = connection.recv(1 << 16)
        assert piece, "the server closed the connection"
        received += piece


def plain(number: int) -> bytes:
    return b"PUB s.x _INBOX.1 %d\r\n%b\r\n" % (len(PAYLOAD), PAYLOAD)


def expecting(number: int) -> bytes:
    """Which the engine does not decide on its own."""
    block = b"NATS/1.0\r\nNats-Expected-Stream: S\r\n\r\n"
    head = b"HPUB s.x _INBOX.1 %d %d\r\n" % (len(block), len(block) + len(PAYLOAD))
    return head + block + PAYLOAD + b"\r\n"


@pytest.mark.parametrize("frame", [plain, expecting])
def test_publishers_wait_for_a_disk_that_hangs(
    frame: Callable[[int], bytes],
    library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = tmp_path / "held"
    monkeypatch.setenv("LD_PRELOAD", behind_them(library))
    monkeypatch.setenv("HELD_DISK", str(held))
    with jetstream_server("headrace", tmp_path / "store") as server:
        publisher, bystander = connect(server.port), connect(server.port)
        body = b'{"name":"S","subjects":["s.*"]}'
        publisher.sendall(b"SUB _INBOX.* 1\r\nPUB $JS.API.STREAM.CREATE.S _INBOX.0 %d\r\n" % len(body))
        publisher.sendall(body + b"\r\n")
        await_text(publisher, b"stream_create_response")
        held.touch()
        everything = b"".join(frame(number) for number in range(MESSAGES))
        taken = send_until_nothing_is_taken(publisher, bystander, everything)
        print(f"{taken / MIB:.0f} MiB taken of {len(everything) / MIB:.0f}")
        assert taken < MOST_HELD + IN_SOCKETS
        held.unlink()
        publisher.setblocking(True)
        publisher.settimeout(50)
        publisher.sendall(memoryview(everything)[taken:])
        await_text(publisher, b'"seq":', MESSAGES)
        publisher.close()
        bystander.close()


def send_until_nothing_is_taken(publisher: socket.socket, bystander: socket.socket, data: bytes) -> int:
    """How much the server accepts while the disk hangs.

    A bystander's PONG shows that the server has polled its sockets: after this many of them without
    a byte taken, it does not want to read this one.
    """
    publisher.setblocking(False)
    view, sent, idle = memoryview(data), 0, 0
    while idle < PINGS and sent < len(data):
        try:
            sent += publisher.send(view[sent : sent + MIB])
            idle = 0
        except BlockingIOError:
            bystander.sendall(b"PING\r\n")
            await_text(bystander, b"PONG\r\n")
            idle += 1
    return sent
