"""Names that try to leave the storage directory, and a directory that cannot be written (FAULTS 11, 39)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.adversity.recorder import Connection
from tests.servers import running_server, server_command

TRAVERSALS = (
    "..", ".", "../up", "../../etc/passwd", "/etc/passwd", "a/b", "a\\b", "..\\up", "a/../../b", "a\x00b",
    "\x00", "%2e%2e%2fup", "..%00", "~", "~root", "\u2025/up", "..\u2215up", "C:", "a" * 300, "a\n", "-rf",
    "$HOME", "",
)  # fmt: skip
CALLS = "openat,openat2,open,creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir,link,symlink"
PATH = re.compile(r'\b(\w+)\((?:AT_FDCWD, |\d+(?:<[^>]*>)?, )?"((?:[^"\\]|\\.)*)"(.*)')


def requests(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    stream = {"name": name, "subjects": ["t.>"], "storage": "file"}
    yield "$JS.API.STREAM.CREATE.OK", stream
    yield "$JS.API.STREAM.UPDATE.OK", stream
    yield "$JS.API.STREAM.CREATE.M", {"name": "M", "mirror": {"name": name}, "storage": "file"}
    for field in ("durable_name", "name"):
        yield (
            "$JS.API.CONSUMER.CREATE.OK",
            {
                "stream_name": "OK",
                "config": {field: name, "ack_policy": "explicit"},
            },
        )
    yield "$JS.API.STREAM.RESTORE.OK", {"config": stream, "state": {}}
    if name and not set(name) & set(" \t\r\n\x00"):
        token = name.replace(".", "_")
        for subject in ("STREAM.CREATE.", "STREAM.DELETE.", "STREAM.PURGE.", "CONSUMER.DELETE.OK."):
            yield f"$JS.API.{subject}{name}", {**stream, "name": name}
            yield f"$JS.API.{subject}{token}", {**stream, "name": name}
        yield (
            f"$JS.API.CONSUMER.DURABLE.CREATE.OK.{token}",
            {
                "stream_name": "OK",
                "config": {"durable_name": name, "ack_policy": "explicit"},
            },
        )


@contextmanager
def traced_server(trace: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    # -D: the server is the process that the test stops; strace would leave it running.
    command = " ".join([strace, "-D", "-f", "-qq", "-s", "4096", "-e", f"trace={CALLS}", "-o", str(trace)])
    monkeypatch.setenv("HEADRACE_SERVER", f"{command} {' '.join(server_command('headrace'))}")
    with running_server("headrace", flags=["-js", "-sd", str(store)]) as server:
        yield server.port


def test_no_name_leads_out_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, store = tmp_path / "trace", tmp_path / "deep" / "down" / "store"
    asked = 0
    with traced_server(trace, store, monkeypatch) as port, Connection(port) as client:
        config = {"name": "OK", "subjects": ["ok"], "storage": "file"}
        assert "error" not in client.request("$JS.API.STREAM.CREATE.OK", config)
        began = len(trace.read_text().splitlines())
        for name in TRAVERSALS:
            for subject, body in requests(name):
                # A subject that no API has is not answered, or refused by the server.
                with Connection(port) as asking, suppress(ConnectionError):
                    asking.request(subject, body)
                asked += 1
        client.request("$JS.API.STREAM.INFO.OK")
        calls = trace.read_text().splitlines()[began:]
    opened = [
        (match.group(1), match.group(2), match.group(3)) for call in calls if (match := PATH.search(call))
    ]
    outside = [call for call in opened if is_outside(*call, store=store)]
    print(
        f"{asked} requests with {len(TRAVERSALS)} names: {len(opened)} calls with a path, "
        f"{len(outside)} outside"
    )
    assert opened, "nothing was traced"
    assert outside == []
    left = {path.name for path in tmp_path.iterdir()} | {path.name for path in (tmp_path / "deep").iterdir()}
    assert left == {"trace", "deep", "down"}


def is_outside(call: str, path: str, rest: str, *, store: Path) -> bool:
    """Whether a call has to do with something that is not the store's. Python may read its modules."""
    if os.path.normpath(path).startswith(f"{store}/") and "/../" not in path:
        return False
    reads_only = call in ("openat", "open") and "O_RDONLY" in rest and "O_CREAT" not in rest
    allowed = (
        sys.prefix,
        sys.base_prefix,
        str(Path(__file__).parents[2]),
        "/proc/",
        "/sys/",
        "/dev/",
        "/usr/",
        "/lib",
    )
    return not (reads_only and (path.startswith(allowed) or path == str(store)))


def start_and_fail(store: Path) -> tuple[int, str, float]:
    began = time.monotonic()
    done = subprocess.run(
        [*server_command("headrace"), "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", str(store)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr, time.monotonic() - began


def test_a_store_on_a_read_only_disk_is_a_clear_failure(tmp_path: Path) -> None:
    """As root, permissions do not count: the disk itself is read-only."""
    disk, mount = tmp_path / "disk", shutil.which("mount")
    disk.mkdir()
    if mount is None or os.geteuid() != 0:
        disk.chmod(0o500)
    elif subprocess.run(
        [mount, "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(disk)], check=False
    ).returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        code, text, took = start_and_fail(disk / "store")
        again, existing, _ = start_and_fail(disk)
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", "-l", str(disk)], check=True)
    print(
        f"a store that cannot be written: exit code {code} after {took:.1f} s: "
        f"{text.strip().splitlines()[-1]}"
    )
    for exit_code, said in ((code, text), (again, existing)):
        assert exit_code == 1
        assert "[FTL]" in said
        assert str(disk) in said
        assert "Traceback" not in said
        assert "Server is ready" not in said
