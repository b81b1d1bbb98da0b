"""The server starts with JetStream, or it says in one line why it cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.config import storage
from headrace.config.options import Options
from headrace.config.storage import with_limits
from tests.servers import ServerKind, running_server, server_command

START_SECONDS = 60
# Permissions mean nothing to root, unless it gives up the privilege to pass over them (CAP_DAC_OVERRIDE).
WITHOUT_PRIVILEGES = (
    sys.executable,
    "-c",
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(24, 1); os.execv(sys.argv[1], sys.argv[1:])",
)
KINDS: list[ServerKind] = ["nats-server", "headrace"]


def last_words(kind: ServerKind, directory: Path, *prefix: str) -> tuple[int, list[str]]:
    """The exit code, and the fatal lines of the log."""
    command = [*prefix, *server_command(kind), "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS, check=False)
    return done.returncode, [line.split("[FTL] ")[1] for line in done.stderr.splitlines() if "[FTL]" in line]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_no_storage_directory(kind: ServerKind, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "jetstream").touch()
    for directory in (tmp_path / "file", tmp_path):
        code, (line,) = last_words(kind, directory)
        assert code == 1
        assert line.startswith("Can't start JetStream: storage directory is not a directory")
        if kind == "headrace":
            assert line.endswith(f" ({directory / 'jetstream'})")


@pytest.mark.parametrize("kind", KINDS)
def test_a_directory_that_cannot_be_made_is_named(kind: ServerKind) -> None:
    code, lines = last_words(kind, Path("/proc/none"))
    assert code == 1
    assert lines[0].startswith("Can't start JetStream: could not create storage directory - mkdir /proc/none")


@pytest.mark.parametrize("kind", KINDS)
def test_a_directory_without_write_permission_is_not_writable(kind: ServerKind, tmp_path: Path) -> None:
    (tmp_path / "jetstream").mkdir(mode=0o555)
    code, lines = last_words(kind, tmp_path, *WITHOUT_PRIVILEGES)
    assert code == 1
    assert len(lines) == 1
    assert lines[0].startswith("Can't start JetStream: storage directory is not writable")


def test_two_servers_do_not_share_a_storage_directory(tmp_path: Path) -> None:
    with running_server("headrace", flags=["-js", "-sd", str(tmp_path)]):
        code, lines = last_words("headrace", tmp_path)
    assert code == 1
    assert "is in use by another server" in lines[0]
    with running_server("headrace", flags=["-js", "-sd", str(tmp_path)]) as again:
        assert f'Store Directory: "{tmp_path}/jetstream"' in again.log()


@pytest.mark.parametrize("kind", KINDS)
def test_the_start_says_what_scripts_look_for(kind: ServerKind, tmp_path: Path) -> None:
    settings = "jetstream { max_mem: 1000, max_file: 10G, domain: hub, strict: false }"
    with running_server(kind, settings, ["-sd", str(tmp_path)]) as server:
        lines = [line.split("[INF] ")[1] for line in server.log().splitlines() if "[INF] " in line]
    for expected in (
        "Starting JetStream",
        "---------------- JETSTREAM ----------------",
        "  Max Memory:      1000 B",
        "  Max Storage:     9.31 GB",
        f'  Store Directory: "{tmp_path}/jetstream"',
        "  Domain:          hub",
        "  API Level:       5",
    ):
        assert expected in lines
    assert "  Strict:          true" not in lines


def test_what_streams_hold_already_counts_as_room_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each start with more data allows less, and one day all publishes are refused."""
    monkeypatch.setattr(storage, "_free_bytes", lambda path: 10 << 20)  # of a disk that nobody else uses
    options = Options(jetstream=True, store_dir=str(tmp_path))
    assert with_limits(options).jetstream_max_store == (10 << 20) // 4 * 3
    held = tmp_path / "jetstream" / "$G" / "streams" / "S" / "msgs"
    held.mkdir(parents=True)
    (held / "1.log").write_bytes(bytes(4 << 20))
    (held / "gone").symlink_to(held / "nowhere")
    assert with_limits(options).jetstream_max_store >= (14 << 20) // 4 * 3
