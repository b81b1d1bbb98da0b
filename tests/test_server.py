"""The executable as others start it: lines, signals, files and exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers import stop

HOST = "127.0.0.1"
PATIENCE_SECONDS = 60.0
COMMAND = [sys.executable, "-m", "headrace.cli.nats_server", "-a", HOST]


class Process:
    """A server whose stderr goes to a file."""

    def __init__(self, directory: Path, *arguments: str, port: int = -1) -> None:
        self.stderr = directory / f"stderr-{time.monotonic_ns()}"
        with self.stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [*COMMAND, "-p", str(port), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
            )

    def text(self) -> str:
        return self.stderr.read_text()

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < end, self.text()
            time.sleep(0.01)

    def until_logged(self, text: str, times: int = 1) -> None:
        self.until(lambda: self.text().count(text) >= times)

    def until_ready(self) -> int:
        """The port on which it listens."""
        self.until(lambda: "Server is ready" in self.text() or self.process.poll() is not None)
        listening = re.search(r"Listening for client connections on 127\.0\.0\.1:(\d+)", self.text())
        assert listening, self.text()
        return int(listening.group(1))

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)


Launch = Callable[..., Process]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    started: list[Process] = []

    def launch_one(*arguments: str, port: int = -1) -> Process:
        started.append(Process(tmp_path, *arguments, port=port))
        return started[-1]

    yield launch_one
    for one in started:
        stop(one.process)


def talk(port: int, data: bytes = b"PING\r\n", until: bytes = b"PONG\r\n") -> bytes:
    """Say something on a new connection; what comes back up to `until`, or to the end."""
    with socket.create_connection((HOST, port), timeout=PATIENCE_SECONDS) as client:
        client.sendall(data)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while until not in received and (piece := client.recv(65536)):
                received += piece
        before, found, _ = received.partition(until)  # the server's own PING may come next
        return before + found


def test_it_says_where_it_listens_and_that_it_is_ready(launch: Launch) -> None:
    server = launch()
    port = server.until_ready()
    lines = server.text().splitlines()
    assert all(re.match(rf"\[{server.process.pid}\] \d{{4}}/\d\d/\d\d \S+ \[INF\] ", line) for line in lines)
    order = ["Starting nats-server", "Listening for client connections on", "Server is ready"]
    assert [text for line in lines for text in order if text in line] == order
    assert b"PONG" in talk(port)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it(launch: Launch, number: signal.Signals) -> None:
    server = launch()
    port = server.until_ready()
    with socket.create_connection((HOST, port), timeout=PATIENCE_SECONDS) as client:
        assert client.recv(5) == b"INFO "
        server.process.send_signal(number)
        while client.recv(65536):  # to the end
            pass
    assert server.exit_code() == 0
    assert "Server Exiting.." in server.text()
    assert "Traceback" not in server.text()


def test_a_lame_duck_stops_when_its_clients_are_gone(launch: Launch, tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text("lame_duck_duration: 30s\nlame_duck_grace_period: 100ms\n")
    server = launch("-c", str(config))
    server.until_ready()
    server.process.send_signal(signal.SIGUSR2)
    assert server.exit_code() == 0
    assert "Entering lame duck mode" in server.text()


def test_a_taken_port_is_fatal(launch: Launch) -> None:
    port = launch().until_ready()
    second = launch(port=port)
    assert second.exit_code() == 1
    assert "[FTL]" in second.text()
    assert "address already in use" in second.text()
    assert "Traceback" not in second.text()


def test_a_pid_file_that_cannot_be_written_is_fatal(launch: Launch, tmp_path: Path) -> None:
    server = launch("-P", str(tmp_path / "missing" / "pid"))
    assert server.exit_code() == 1
    assert "[FTL]" in server.text()
    assert "Traceback" not in server.text()


def test_a_ports_file_that_cannot_be_written_is_only_an_error(launch: Launch, tmp_path: Path) -> None:
    server = launch("--ports_file_dir", str(tmp_path / "missing"))
    port = server.until_ready()
    assert "[ERR] Error writing ports file" in server.text()
    assert b"PONG" in talk(port)
    server.process.terminate()
    assert server.exit_code() == 0


def test_files_tell_its_process_and_its_ports(launch: Launch, tmp_path: Path) -> None:
    server = launch("-P", str(tmp_path / "pid"), "--ports_file_dir", str(tmp_path))
    port = server.until_ready()
    assert (tmp_path / "pid").read_text() == str(server.process.pid)
    ports = tmp_path / f"nats-server_{server.process.pid}.ports"
    assert json.loads(ports.read_text())["nats"] == [f"nats://{HOST}:{port}"]
    server.process.terminate()
    assert server.exit_code() == 0
    assert not ports.exists()
    assert not (tmp_path / "pid").exists()


def test_a_failed_start_leaves_the_files_of_the_running_server(launch: Launch, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    first = launch("-P", str(pid_file))
    port = first.until_ready()
    assert launch("-P", str(pid_file), port=port).exit_code() == 1
    assert pid_file.read_text() == str(first.process.pid)
    first.process.terminate()
    assert first.exit_code() == 0
    assert not pid_file.exists()


def test_a_pid_file_that_another_server_has_taken_over_is_left(launch: Launch, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    first = launch("-P", str(pid_file))
    first.until_ready()
    second = launch("-P", str(pid_file))
    second.until_ready()
    first.process.terminate()
    assert first.exit_code() == 0
    assert pid_file.read_text() == str(second.process.pid)


def test_hangup_moves_the_files(launch: Launch, tmp_path: Path) -> None:
    config, old, new = tmp_path / "server.conf", tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()

    def configure(directory: Path) -> None:
        config.write_text(f"pid_file: '{directory}/pid'\nports_file_dir: '{directory}'\n")

    def names(directory: Path) -> set[str]:
        return {path.name for path in directory.iterdir()}

    configure(old)
    server = launch("-c", str(config))
    server.until_ready()
    written = {"pid", f"nats-server_{server.process.pid}.ports"}
    assert names(old) == written
    configure(new)
    server.process.send_signal(signal.SIGHUP)
    server.until_logged("Reloaded server configuration")
    assert (names(old), names(new)) == (set(), written)
    assert (new / "pid").read_text() == str(server.process.pid)

    configure(tmp_path / "missing")  # said, and the old pid file stays: a reload that went wrong halfway
    server.process.send_signal(signal.SIGHUP)
    server.until_logged("Reloaded server configuration", 2)
    assert "[ERR] Could not write pidfile" in server.text()
    assert "[ERR] Error writing ports file" in server.text()
    assert names(new) == {"pid"}

    config.write_text("debug: false\n")
    server.process.send_signal(signal.SIGHUP)
    server.until_logged("Reloaded server configuration", 3)
    assert names(new) == set()


def test_hangup_reads_the_configuration_again(launch: Launch, tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text("max_payload: 100\n")
    server = launch("-c", str(config))
    port = server.until_ready()
    assert b'"max_payload":100,' in talk(port)

    config.write_text("max_payload: 200\n")
    server.process.send_signal(signal.SIGHUP)
    server.until_logged("Reloaded server configuration")
    assert b'"max_payload":200,' in talk(port)

    for number, broken in enumerate(("max_payload: {", "server_name: other\n", "no_such_option: 1\n"), 1):
        config.write_text(broken)
        server.process.send_signal(signal.SIGHUP)
        server.until_logged("Failed to reload server configuration", number)
        assert b'"max_payload":200,' in talk(port)

    config.unlink()
    server.process.send_signal(signal.SIGHUP)
    server.until_logged("Failed to reload server configuration", 4)
    assert b'"max_payload":200,' in talk(port)
    assert "Traceback" not in server.text()


def test_hangup_brings_credentials(launch: Launch, tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text("")
    server = launch("-c", str(config))
    port = server.until_ready()
    config.write_text("authorization { token: hush }\n")
    server.process.send_signal(signal.SIGHUP)
    server.until_logged("Reloaded server configuration")
    assert b"Authorization Violation" in talk(port)
    assert b"PONG" in talk(port, b'CONNECT {"auth_token":"hush"}\r\nPING\r\n')
    assert "hush" not in server.text()


def test_a_log_that_was_moved_away_is_opened_again(launch: Launch, tmp_path: Path) -> None:
    log, moved = tmp_path / "server.log", tmp_path / "server.log.1"
    server = launch("-l", str(log), "-D")
    server.until(lambda: log.exists() and "Server is ready" in log.read_text())
    match = re.search(r"connections on 127\.0\.0\.1:(\d+)", log.read_text())
    assert match
    log.rename(moved)
    server.process.send_signal(signal.SIGUSR1)
    server.until(lambda: log.exists() and "re-opened" in log.read_text())
    talk(int(match.group(1)))
    server.until(lambda: "Client connection created" in log.read_text())
    assert "Client connection created" not in moved.read_text()


def test_it_answers_although_nobody_reads_its_stderr() -> None:
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen([*COMMAND, "-p", "-1", "-DV"], stdin=subprocess.DEVNULL, stderr=writing)
        try:
            text = b""
            while b"Server is ready" not in text:
                text += os.read(reading, 65536)
            match = re.search(rb"connections on 127\.0\.0\.1:(\d+)", text)
            assert match
            # Far more than a pipe holds, and more than the log keeps for later.
            burst = b"PUB some.subject 50000\r\n" + b"x" * 50_000 + b"\r\n"
            for _ in range(8):
                assert talk(int(match.group(1)), burst * 20 + b"PING\r\n").endswith(b"PONG\r\n")
            process.terminate()
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(reading)
        os.close(writing)


def test_it_answers_although_its_stderr_was_closed() -> None:
    process = subprocess.Popen(
        [*COMMAND, "-p", "-1", "-DV"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr
    try:
        text = b""
        while b"Server is ready" not in text:
            text += process.stderr.readline()
        match = re.search(rb"connections on 127\.0\.0\.1:(\d+)", text)
        assert match
        process.stderr.close()
        for _ in range(3):
            assert talk(int(match.group(1))).endswith(b"PONG\r\n")
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("flag", ["--version", "-v"])
def test_it_tells_its_version(flag: str) -> None:
    done = subprocess.run([*COMMAND[:3], flag], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0
    assert re.fullmatch(r"nats-server: v\d+\.\d+\.\d+.*\n", done.stdout)


def test_a_bad_configuration_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text("max_payload: {\n")
    done = subprocess.run(
        [*COMMAND, "-p", "-1", "-c", str(config)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert str(config) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["headrace.cli.nats_server -a 127.0.0.1 -p -1", "headrace serve -p -1"])
def test_closed_standard_streams_do_no_harm(command: str, closed: str, tmp_path: Path) -> None:
    """A socket must not get the number of a standard stream: libuv aborts when it closes it."""
    ready = tmp_path / "log"
    flag = "-l" if "nats_server" in command else "--log-file"
    line = f"exec {sys.executable} -m {command} {flag} {ready} {closed}"
    process = subprocess.Popen(
        ["sh", "-c", line],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HEADRACE_STORE": str(tmp_path / "store")},
    )
    try:
        end = time.monotonic() + 30
        while not (ready.exists() and "Server is ready" in ready.read_text()):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
