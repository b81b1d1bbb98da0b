"""Disks that fail: a failing fsync is never acknowledged, a full disk is said so and recovered from."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.adversity.recorder import Connection, Record, check, create_stream, stored_messages
from tests.sanitizers import behind_them
from tests.servers import running_server

FAILING_FSYNC = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>
/* Once the file FSYNC_FAILS_WHEN exists, no descriptor can be synced. */
#include <stdlib.h>
static int fails(void) {
    const char *path = getenv("FSYNC_FAILS_WHEN");
    return path && access(path, F_OK) == 0;
}
int fsync(int fd) {
    if (fails()) { errno = EIO; return -1; }
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
int fdatasync(int fd) {
    if (fails()) { errno = EIO; return -1; }
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
"""


@pytest.fixture
def failing_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Servers started from now on fail every fsync once the returned file exists."""
    source, library, trigger = tmp_path / "fsync.c", tmp_path / "fsync.so", tmp_path / "broken"
    source.write_text(FAILING_FSYNC)
    subprocess.run(
        [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True
    )
    monkeypatch.setenv("LD_PRELOAD", behind_them(library))
    monkeypatch.setenv("FSYNC_FAILS_WHEN", str(trigger))
    return trigger


def test_nothing_is_acknowledged_once_fsync_fails(tmp_path: Path, failing_fsync: Path) -> None:
    directory, record = tmp_path / "store", Record()
    directory.mkdir()
    with running_server("headrace", flags=["-js", "-sd", str(directory)]) as server:
        create_stream(server.port)
        record.publish(server.port, count=1000)
        assert len(record.acknowledged) == 1000
        failing_fsync.touch()
        record.publish(server.port, count=100)
        assert len(record.acknowledged) == 1000, "an acknowledgement without a sync"
        assert len(record.errors) == 100, "publishers get errors"
        # Nor does it continue as if nothing had happened: a retried fsync can lie.
        failing_fsync.unlink()
        record.publish(server.port, count=10)
        assert len(record.acknowledged) == 1000
        check(record, stored_messages(server.port))
        server.process.kill()
    with running_server("headrace", flags=["-js", "-sd", str(directory)]) as server:
        check(record, stored_messages(server.port))
        record.publish(server.port, count=10)
        assert len(record.acknowledged) == 1010, "after a restart the stream takes messages again"


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[Path]:
    """A tmpfs of its own. Skipped where that is not allowed."""
    directory.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("a small tmpfs can be mounted by root only")
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def test_a_full_disk_is_reported_to_publishers_and_recovered_from(tmp_path: Path) -> None:
    record = Record()
    with (
        small_disk(tmp_path / "disk", "24m") as disk,
        running_server("headrace", flags=["-js", "-sd", str(disk / "store")]) as server,
    ):
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(4 * 1024 * 1024))
        create_stream(server.port)
        record.publish(server.port, count=400, size=64 * 1024, in_flight=16)
        assert record.errors, "the disk holds less than was published"
        full = len(record.acknowledged)
        check(record, stored_messages(server.port))  # reading works on a full disk
        ballast.unlink()
        with Connection(server.port) as connection:
            assert "error" not in connection.request("$JS.API.STREAM.PURGE.CRASH", {"keep": 10})
        kept = min(stored_messages(server.port))
        for _ in range(50):
            record.publish(server.port, count=1)
            if len(record.acknowledged) > full:
                break
        assert len(record.acknowledged) > full, "there is room again"
        check(record, stored_messages(server.port), first=kept)
        server.process.kill()
        with running_server("headrace", flags=["-js", "-sd", str(disk / "store")]) as again:
            check(record, stored_messages(again.port), first=kept)


def test_a_store_directory_that_cannot_be_written_is_a_clear_failure(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    with (
        pytest.raises(RuntimeError, match="storage directory is not a directory"),
        running_server("headrace", flags=["-js", "-sd", str(blocked)]),
    ):
        pass


def test_deleting_a_message_on_a_full_disk_does_not_stop_the_stream(tmp_path: Path) -> None:
    """Erasing in a compressed segment needs space: the message goes, and its text when there is some."""
    with (
        small_disk(tmp_path / "disk", "64m") as disk,
        running_server("headrace", flags=["-js", "-sd", str(disk / "store")]) as server,
        Connection(server.port) as connection,
    ):
        create_stream(server.port, compression="s2")
        record = Record()
        record.publish(server.port, count=300, size=64 * 1024, in_flight=16)
        assert len(record.acknowledged) == 300
        (first,) = disk.rglob("000000000001.log")
        until = time.monotonic() + 60
        while first.read_bytes()[8:12] != b"\2\0\0\0" and time.monotonic() < until:
            time.sleep(0.05)  # until it is compressed
        ballast = disk / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        answer = connection.request("$JS.API.STREAM.MSG.DELETE.CRASH", {"seq": 5})
        assert "removed but not erased" in answer["error"]["description"], answer
        answer = connection.request("$JS.API.STREAM.MSG.DELETE.CRASH", {"seq": 5})
        assert answer["error"]["err_code"] == 10043, answer  # there is no such message
        server.wait_for_log("cannot be overwritten so far")
        ballast.unlink()
        record.publish(server.port, count=10)
        assert not record.errors
        assert len(record.acknowledged) == 310
        assert connection.request("$JS.API.STREAM.MSG.DELETE.CRASH", {"seq": 6}).get("success")
        del record.acknowledged[5], record.acknowledged[6]
        check(record, stored_messages(server.port))
        answer = connection.request("$JS.API.STREAM.PURGE.CRASH")
        assert answer.get("success"), answer
        assert answer["purged"] == 308


def test_a_new_stream_takes_messages_once_there_are_descriptors_again(tmp_path: Path) -> None:
    """Its first message makes a file and syncs the directory; no descriptor for that is not a failed sync."""
    stream = {"name": "T", "subjects": ["t"], "storage": "file"}
    with running_server("headrace", flags=["-js", "-sd", str(tmp_path)]) as server:
        pid, refused = server.process.pid, 0
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        with Connection(server.port) as client:
            for free in (0, 1):
                client.request("$JS.API.STREAM.CREATE.T", stream)
                taken = len(list(Path(f"/proc/{pid}/fd").iterdir()))
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (taken + free, limits[1]))
                refused += "error" in client.request("t", b"1")
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
                deadline = time.monotonic() + 30
                while "error" in (answer := client.request("t", b"2")):
                    assert time.monotonic() < deadline, answer
                client.request("$JS.API.STREAM.DELETE.T")
    assert refused
    print(f"{refused} first messages refused for want of descriptors, the next ones stored")
