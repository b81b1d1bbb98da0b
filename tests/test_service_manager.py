"""What a service manager is told, over a real socket (sd_notify)."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.service_manager import ServiceManager
from tests.servers import running_server

SECONDS = 30.0
DEPLOY = Path(__file__).parents[1] / "deploy"


class Manager:
    """The other side."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.settimeout(SECONDS)

    def next(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self._socket.recv(4096).decode().split("\n"))

    def next_but(self, *names: str) -> dict[str, str]:
        while (told := self.next()).keys() <= set(names):
            pass
        return told

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    name = (
        f"@headrace-test-{time.monotonic_ns()}" if request.param == "abstract" else str(tmp_path / "notify")
    )
    made = Manager(name)
    yield made
    made.close()


def test_a_server_tells_when_it_is_ready_reloads_and_stops(
    manager: Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    with running_server("headrace", "max_payload: 1000", ["-js", "-sd", str(tmp_path)]) as server:
        told = manager.next()
        assert told["READY"] == "1"
        assert told["STATUS"] == f"Listening for client connections on 127.0.0.1:{server.port}"
        server.process.send_signal(signal.SIGHUP)
        reloading = manager.next()
        assert reloading["RELOADING"] == "1"
        assert 0 < int(reloading["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
        assert manager.next() == {"READY": "1"}
        server.process.send_signal(signal.SIGTERM)
        assert manager.next() == {"STOPPING": "1", "STATUS": "Stopping"}
        assert server.process.wait(SECONDS) == 0


def test_a_watchdog_is_fed_until_the_server_stops(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    with running_server("headrace") as server:
        assert "READY" in manager.next()
        for _ in range(5):
            assert manager.next() == {"WATCHDOG": "1"}
        server.process.send_signal(signal.SIGTERM)
        assert manager.next_but("WATCHDOG") == {"STOPPING": "1", "STATUS": "Stopping"}


def test_the_watchdog_of_another_process_is_not_ours() -> None:
    variables = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1000000"}
    assert ServiceManager.of_environment(variables)._watchdog_seconds == 1.0
    assert ServiceManager.of_environment({**variables, "WATCHDOG_PID": "1"})._watchdog_seconds == 0.0
    for wrong in ("", "x", "-1"):
        assert ServiceManager.of_environment({**variables, "WATCHDOG_USEC": wrong})._watchdog_seconds == 0.0


@pytest.mark.parametrize("address", ["/nowhere/notify", "x" * 200, "", "@"])
def test_a_manager_that_does_not_listen_does_not_matter(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = ServiceManager(address)
    manager.ready("here")
    with manager.reloading():
        pass
    manager.stopping()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """With a server that exists here."""
    unit = (DEPLOY / "headrace.service").read_text()
    server = Path(sys.executable).parent / "headrace-server"
    assert "ExecStart=/opt/headrace/bin/headrace-server " in unit
    (tmp_path / "headrace.service").write_text(unit.replace("/opt/headrace/bin/headrace-server", str(server)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "headrace.service")],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_finds_the_unit_well_locked_in() -> None:
    """At most 1.5 of 10 points of exposure: what is left is the network, and files that a group may read."""
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=15", str(DEPLOY / "headrace.service")],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_unit_waits_as_long_as_the_server_drains() -> None:
    from headrace.config.options import Options

    unit = (DEPLOY / "headrace.service").read_text()
    (line,) = (line for line in unit.splitlines() if line.startswith("TimeoutStopSec="))
    assert int(line.partition("=")[2]) > Options().lame_duck_duration
