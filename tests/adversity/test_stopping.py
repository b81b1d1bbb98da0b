"""SIGTERM ends the server whatever it is doing, and the log says what was given up (FAULTS 16)."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.adversity.preload import compile_library
from tests.adversity.recorder import Connection, Record, check, create_stream, stored_messages
from tests.sanitizers import behind_them
from tests.servers import running_server

PATIENCE_SECONDS = 60.0

HANGING_DISK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
/* While the file DISK_HANGS_WHILE exists, nothing can be synced. */
static void wait_for_disk(void) {
    const char *path = getenv("DISK_HANGS_WHILE");
    while (path && access(path, F_OK) == 0) usleep(1000);
}
int fsync(int fd) {
    wait_for_disk();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
int fdatasync(int fd) {
    wait_for_disk();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
"""

STUCK_SERVER = """
import asyncio, collections, itertools, os, signal, sys, time
from headrace import runner
from headrace.cli import nats_server
from headrace.streams import jetstream_account
from headrace.streams.api import stream_requests as stream_api

async def never_ends():
    while True:
        await asyncio.sleep(0)

async def endless_python():
    while True:
        pass

async def endless_c():
    collections.deque(itertools.repeat(None), maxlen=0)      # never gives up the interpreter's lock

async def stuck_thread():
    await asyncio.to_thread(time.sleep, 10_000)

async def stuck(owner, request):
    os.write(2, b"It begins.\\n")
    await globals()[request.payload.decode()]()

runner.STOP_SECONDS = int(sys.argv.pop(1))
jetstream_account.STOP_REQUESTS_SECONDS = 0.2
jetstream_account.ROUTES = tuple(
    type(route)(route.pattern, route.kind, stuck) if route.pattern == "STREAM.PURGE.*" else route
    for route in jetstream_account.ROUTES
)
nats_server.main()
"""


def stop_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, seconds: int) -> tuple[int, str]:
    """Stop a server while a request does this; its exit code and its log."""
    script = tmp_path / "stuck.py"
    script.write_text(STUCK_SERVER)
    monkeypatch.setenv("HEADRACE_SERVER", f"{sys.executable} {script} {seconds}")
    with running_server("headrace", flags=["-js", "-sd", str(tmp_path / "store")]) as server:
        create_stream(server.port)
        record = Record()
        record.publish(server.port, count=100)
        with Connection(server.port) as connection:
            connection.send(
                b"PUB $JS.API.STREAM.PURGE.CRASH %d\r\n%b\r\nPING\r\n" % (len(what), what.encode())
            )
            server.wait_for_log("It begins.")
            server.process.send_signal(signal.SIGTERM)
            code = server.process.wait(PATIENCE_SECONDS)
        log = server.log()
    monkeypatch.delenv("HEADRACE_SERVER")
    with running_server("headrace", flags=["-js", "-sd", str(tmp_path / "store")]) as server:
        check(record, stored_messages(server.port))
    print(f"stopped during {what}: exit code {code}, {len(record.acknowledged)} acknowledged, 0 lost")
    return code, log


def test_a_request_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, log = stop_while(tmp_path, monkeypatch, "never_ends", 30)
    assert "gave up on a request that does not end: $JS.API.STREAM.PURGE.CRASH" in log
    assert "Server Exiting.." in log
    assert code == 0


@pytest.mark.parametrize("what", ["endless_python", "endless_c", "stuck_thread"])
def test_a_server_that_is_stuck_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    code, log = stop_while(tmp_path, monkeypatch, what, 1)
    assert code == 1
    assert "The server did not stop in time and is ended now" in log
    assert what in log or what == "stuck_thread"
    assert "Thread 0x" in log  # what every thread was doing


@pytest.mark.parametrize(("seconds", "code"), [(1, 1), (60, 0)], ids=["for ever", "for a while"])
def test_a_disk_that_hangs_delays_the_end_but_does_not_prevent_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, code: int
) -> None:
    hangs, script, record = tmp_path / "hangs", tmp_path / "stuck.py", Record()
    script.write_text(STUCK_SERVER)
    monkeypatch.setenv("HEADRACE_SERVER", f"{sys.executable} {script} {seconds}")
    monkeypatch.setenv("LD_PRELOAD", behind_them(compile_library(tmp_path, "disk", HANGING_DISK)))
    monkeypatch.setenv("DISK_HANGS_WHILE", str(hangs))
    flags = ["-js", "-sd", str(tmp_path / "store")]
    with running_server("headrace", flags=flags) as server:
        create_stream(server.port)
        record.publish(server.port, count=100)
        with Connection(server.port) as connection:
            hangs.touch()
            connection.send(b"SUB acks 1\r\nPUB crash.1 acks 4\r\n0 la\r\n")
            connection.ping()
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_log("Initiating Shutdown")
            if code == 0:
                hangs.unlink()
            assert server.process.wait(PATIENCE_SECONDS) == code
        log = server.log()
    hangs.unlink(missing_ok=True)
    monkeypatch.delenv("HEADRACE_SERVER")
    with running_server("headrace", flags=flags) as server:
        check(record, {seq: body for seq, body in stored_messages(server.port).items() if seq <= 100})
    assert ("did not stop in time" in log) == (code == 1)
    print(f"a disk that hangs: exit code {code}, {len(record.acknowledged)} acknowledged, 0 lost")


def test_a_server_that_stops_in_time_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "run.py"
    script.write_text(STUCK_SERVER)
    monkeypatch.setenv("HEADRACE_SERVER", f"{sys.executable} {script} 60")
    for number in (signal.SIGTERM, signal.SIGINT):
        with running_server("headrace", flags=["-js", "-sd", str(tmp_path / "store")]) as server:
            server.process.send_signal(number)
            server.process.send_signal(number)
            assert server.process.wait(PATIENCE_SECONDS) == 0
            assert "Server Exiting.." in server.log()


@pytest.mark.parametrize("way", ["SIGTERM", "SIGUSR2"])
def test_stopping_under_load_loses_nothing(tmp_path: Path, way: str) -> None:
    config = "lame_duck_duration: 30s\nlame_duck_grace_period: 100ms\n"
    record = Record()
    flags = ["-js", "-sd", str(tmp_path)]
    with running_server("headrace", config, flags) as server:
        create_stream(server.port)
        publishing = threading.Thread(target=record.publish, args=(server.port,))
        with Connection(server.port) as bystander:
            bystander.send(b'CONNECT {"verbose":false,"protocol":1}\r\n')
            bystander.ping()
            publishing.start()
            while len(record.acknowledged) < 1000:
                assert publishing.is_alive()
                time.sleep(0.01)
            server.process.send_signal(signal.Signals[way])
            said = b""
            while piece := bystander.socket.recv(65536):
                said += piece
        assert server.process.wait(PATIENCE_SECONDS) == 0
        publishing.join(PATIENCE_SECONDS)
        assert not publishing.is_alive()
    if way == "SIGUSR2":
        assert b'"ldm":true' in said
    with running_server("headrace", flags=flags) as server:
        check(record, stored_messages(server.port))
    print(f"{way}: {len(record.acknowledged)} acknowledged under load, 0 lost")
