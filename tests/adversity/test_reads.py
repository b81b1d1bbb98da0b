"""Reads that fail: no descriptors, an error of the disk, damaged bytes. Nothing is lost, and it is said."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.store.log import Log
from tests.adversity.recorder import Connection, create_stream, payload_of
from tests.sanitizers import behind_them
from tests.servers import Server, running_server

MESSAGES = 5000
SEGMENT = 16384
DESCRIPTORS = 256
IDLE_CLIENTS = 300
PATIENCE_SECONDS = 30.0

FAILING_READS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
/* While the file READS_FAIL_WHEN exists, no file can be read at a place. */
ssize_t pread(int fd, void *data, size_t length, off_t offset) {
    const char *path = getenv("READS_FAIL_WHEN");
    if (path && access(path, F_OK) == 0) { errno = EIO; return -1; }
    return ((ssize_t (*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread"))(fd, data, length, offset);
}
ssize_t pread64(int fd, void *data, size_t length, off_t offset) { return pread(fd, data, length, offset); }
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A directory with a stream of many small segments, some of them compressed."""
    directory = tmp_path / "store"
    with running_server("headrace", flags=["-js", "-sd", str(directory)]) as server:
        create_stream(server.port, compression="s2", allow_direct=True)
    log = messages_of(directory)
    an_hour_ago = time.time_ns() - 3600 * 1_000_000_000  # so that no start reads them, for their ids
    for number in range(1, MESSAGES + 1):
        log.append(b"crash.%d" % (number % 5), b"", payload_of(number), an_hour_ago + number)
    log.commit()
    assert log.segment_files >= 18
    log.close()
    return directory


def messages_of(directory: Path) -> Log:
    (path,) = directory.rglob("msgs")
    log = Log(str(path), segment_bytes=SEGMENT, compression="s2")
    log.recover()
    return log


def flags(directory: Path) -> list[str]:
    return ["-js", "-sd", str(directory), "-m", "-1"]


def create_consumer(connection: Connection) -> None:
    config = {"durable_name": "reader", "ack_policy": "none"}
    created = connection.request(
        "$JS.API.CONSUMER.DURABLE.CREATE.CRASH.reader", {"stream_name": "CRASH", "config": config}
    )
    assert "error" not in created, created


def pull(connection: Connection, count: int) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """Ask the consumer for messages; what comes."""
    body = json.dumps({"batch": count, "expires": int(PATIENCE_SECONDS * 1e9)}).encode()
    connection.send(
        b"SUB _INBOX.read 2\r\nPUB $JS.API.CONSUMER.MSG.NEXT.CRASH.reader _INBOX.read %d\r\n%b\r\n"
        % (len(body), body)
    )
    return islice(connection.messages(), count)


def numbers(delivered: Iterator[tuple[bytes, bytes, bytes, bytes]]) -> list[int]:
    return [int(payload.partition(b" ")[0] or -1) for _, _, payload, _ in delivered]


def health(server: Server) -> tuple[int, str]:
    found = re.search(r"Starting http monitor on \S+:(\d+)", server.log())
    assert found is not None, server.log()
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{found[1]}/healthz", timeout=PATIENCE_SECONDS
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def wait_until_healthy(server: Server) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while health(server)[0] != 200 and time.monotonic() < until:
        time.sleep(0.1)
    assert health(server)[0] == 200


def test_idle_clients_cannot_take_the_descriptors_of_a_stream(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limiter = shutil.which("prlimit")
    if limiter is None:
        pytest.skip("needs prlimit")
    limit = f"{limiter} --nofile={DESCRIPTORS}:{DESCRIPTORS}"
    monkeypatch.setenv("HEADRACE_SERVER", f"{limit} {sys.executable} -m headrace.cli.nats_server")
    with running_server("headrace", flags=flags(store)) as server:
        with Connection(server.port) as connection:
            create_consumer(connection)
            with ExitStack() as idle:
                for _ in range(IDLE_CLIENTS):
                    idle.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                server.wait_for_log("Clients are refused")
                delivered = numbers(pull(connection, MESSAGES))
            assert delivered == list(range(1, MESSAGES + 1))
            connection.send(b"PUB crash.1 3\r\nend\r\n")
            info = connection.request("$JS.API.STREAM.INFO.CRASH")
            assert info["state"]["messages"] == MESSAGES + 1
        with Connection(server.port) as after:  # there is room for clients again
            assert "error" not in after.request("$JS.API.STREAM.INFO.CRASH")
    log = messages_of(store)
    assert (log.count, log.damages) == (MESSAGES + 1, [])
    log.close()
    print(
        f"{DESCRIPTORS} descriptors, {IDLE_CLIENTS} idle clients: {MESSAGES} of {MESSAGES} delivered and kept"
    )


@pytest.fixture
def trigger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """While this file exists, servers that are started from now on cannot read theirs."""
    source, library, trigger = tmp_path / "reads.c", tmp_path / "reads.so", tmp_path / "broken"
    source.write_text(FAILING_READS)
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", behind_them(library))
    monkeypatch.setenv("READS_FAIL_WHEN", str(trigger))
    return trigger


def test_a_disk_that_cannot_be_read_for_a_while_costs_nothing(store: Path, trigger: Path) -> None:
    with (
        running_server("headrace", flags=flags(store)) as server,
        Connection(server.port) as connection,
        Connection(server.port) as other,
    ):
        assert health(server)[0] == 200
        create_consumer(connection)
        trigger.touch()
        delivered = pull(connection, MESSAGES)
        answer = other.request("$JS.API.STREAM.MSG.GET.CRASH", {"seq": 7})
        assert answer["error"]["err_code"] == 10077, answer
        assert direct_get(other, 7).startswith(b"NATS/1.0 500 ")
        assert other.fetch("CRASH", "reader", 5) == []  # a pull that does not wait is answered
        answer = other.request("$JS.API.STREAM.MSG.DELETE.CRASH", {"seq": 7})
        assert answer["error"]["err_code"] == 10077, answer
        answer = other.request("$JS.API.STREAM.PURGE.CRASH", {"filter": "crash.3"})
        assert answer["error"]["err_code"] == 10077, answer
        assert other.request("crash.1", b"published meanwhile")["seq"] == MESSAGES + 1
        assert other.request("$JS.API.STREAM.INFO.CRASH")["state"]["messages"] == MESSAGES + 1
        status, text = health(server)
        assert status == 503
        assert "unavailable" in text
        assert "read error" in text
        trigger.unlink()
        assert numbers(delivered) == list(range(1, MESSAGES + 1)), "it continues by itself"
        assert direct_get(other, 7).startswith(b"NATS/1.0\r\n")
        wait_until_healthy(server)
        said = r"Stream 'CRASH': message \d+: cannot read segment \d+: Input/output error"
        log = server.wait_for_log("cannot read segment")
        assert len(re.findall(said, log)) == 1
        assert "Traceback" not in log
    log = messages_of(store)
    assert (log.count, log.damages) == (MESSAGES + 1, [])
    log.close()


def test_what_is_refused_because_of_a_read_error_is_not_stored(store: Path, trigger: Path) -> None:
    """A rollup has to find what it replaces: before it is stored, and before any message of its batch is."""
    rollup = "Nats-Rollup: sub\r\n"
    batch = [f"Nats-Batch-Id: b\r\nNats-Batch-Sequence: {number}\r\n" for number in (1, 2, 3)]
    batch[1] += rollup
    batch[2] += "Nats-Batch-Commit: 1\r\n"
    with running_server("headrace", flags=flags(store)) as server, Connection(server.port) as connection:
        info = connection.request("$JS.API.STREAM.INFO.CRASH")
        config = {**info["config"], "allow_rollup_hdrs": True, "allow_atomic": True}
        assert "error" not in connection.request("$JS.API.STREAM.UPDATE.CRASH", config)

        def publish_all() -> list[dict[str, Any]]:
            connection.send(message(b"crash.9", batch[0]) + message(b"crash.2", batch[1]))
            answers = []
            for subject, headers in ((b"crash.9", batch[2]), (b"crash.2", rollup)):
                connection.send(b"SUB answers 9\r\n" + message(subject, headers, b"answers"))
                answers.append(json.loads(next(connection.messages())[2]))
                connection.send(b"UNSUB 9\r\n")
            return answers

        trigger.touch()
        for answer in publish_all():
            assert answer["error"]["err_code"] == 10077, answer
        assert connection.request("$JS.API.STREAM.INFO.CRASH")["state"] == info["state"]
        trigger.unlink()
        batched, single = publish_all()
        assert (batched["seq"], batched["count"]) == (MESSAGES + 3, 3)
        assert single["seq"] == MESSAGES + 4
        left = MESSAGES - MESSAGES // 5 + 3  # the batch, and of crash.2 the last
        assert connection.request("$JS.API.STREAM.INFO.CRASH")["state"]["messages"] == left
        assert "Traceback" not in server.log()


def message(subject: bytes, headers: str, reply: bytes = b"") -> bytes:
    block = f"NATS/1.0\r\n{headers}\r\n".encode()
    return b"HPUB %b %b %d %d\r\n%b\r\n" % (subject, reply, len(block), len(block), block)


def direct_get(connection: Connection, seq: int) -> bytes:
    body = json.dumps({"seq": seq}).encode()
    connection.send(
        b"SUB _INBOX.direct 5\r\nPUB $JS.API.DIRECT.GET.CRASH _INBOX.direct %d\r\n%b\r\nUNSUB 5 1\r\n"
        % (len(body), body)
    )
    _, headers, _, _ = next(connection.messages())
    return headers


def test_damage_that_is_met_while_running_is_reported(store: Path) -> None:
    (path,) = store.rglob("msgs")
    plain = max(path.glob("*.log"))  # the last one is not compressed
    data = bytearray(plain.read_bytes())
    wanted = MESSAGES - 3
    found = re.search(rb"%d " % wanted, data)
    assert found is not None
    data[found.start()] ^= 1
    plain.write_bytes(data)
    with running_server("headrace", flags=flags(store)) as server, Connection(server.port) as connection:
        create_consumer(connection)
        readable = [number for number in range(1, MESSAGES + 1) if number != wanted]
        assert numbers(pull(connection, MESSAGES - 1)) == readable
        info = connection.request("$JS.API.STREAM.INFO.CRASH")
        assert info["state"]["messages"] == MESSAGES, "it is not removed"
        status, text = health(server)
        assert status == 503
        assert f"message {wanted}" in text
        assert "Stream 'CRASH'" in server.wait_for_log("is damaged")
        answer = connection.request("$JS.API.STREAM.MSG.DELETE.CRASH", {"seq": wanted})
        assert answer.get("success"), answer
        info = connection.request("$JS.API.STREAM.INFO.CRASH")
        assert info["state"]["messages"] == MESSAGES - 1
