"""The clock jumps by a day, forwards and backwards (FAULTS 44)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import pytest

from tests.adversity.preload import compile_library
from tests.adversity.recorder import Connection, Record, check, create_stream, stored_messages
from tests.adversity.watch import Bystander
from tests.sanitizers import behind_them
from tests.servers import running_server

DAY_SECONDS = 24 * 3600
NANOSECONDS = 10**9

SHIFTED_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
/* The wall clock is off by the seconds in the file CLOCK_SHIFT; the monotonic clock is right. */
static volatile int64_t *shift;
__attribute__((constructor)) static void map_shift(void) {
    const char *path = getenv("CLOCK_SHIFT");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
        if (page != MAP_FAILED) shift = page;
        close(fd);
    }
}
int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, at);
    if (!result && shift && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += *shift;
    return result;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
"""

SetClock = Callable[[int], None]


@pytest.fixture
def set_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """Shifts the clock of servers that are started from now on, also while they run."""
    shift = tmp_path / "shift"
    shift.write_bytes(bytes(4096))
    monkeypatch.setenv("LD_PRELOAD", behind_them(compile_library(tmp_path, "clock", SHIFTED_CLOCK)))
    monkeypatch.setenv("CLOCK_SHIFT", str(shift))

    def set_to(seconds: int) -> None:
        with shift.open("r+b") as file:
            file.write(struct.pack("=q", seconds))

    return set_to


def state(client: Connection) -> tuple[int, int, int]:
    info = client.request("$JS.API.STREAM.INFO.CRASH")["state"]
    return info["messages"], info["first_seq"], info["last_seq"]


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_clock_that_jumps_loses_nothing(tmp_path: Path, set_clock: SetClock, storage: str) -> None:
    """A day forwards, two days back, and home again, with ages and windows of a week."""
    record, jumps = Record(), (0, DAY_SECONDS, -DAY_SECONDS, 0)
    flags = ["-js", "-sd", str(tmp_path / "store")]
    with running_server("headrace", flags=flags) as server, Bystander(server.port) as bystander:
        week = 7 * DAY_SECONDS * NANOSECONDS
        create_stream(server.port, storage=storage, max_age=week, duplicate_window=week, allow_msg_ttl=True)
        with Connection(server.port) as client:
            for place, seconds in enumerate(jumps, 1):
                set_clock(seconds)
                record.publish(server.port, count=500)
                assert state(client) == (500 * place, 1, 500 * place)
                check(record, stored_messages(server.port))
    if storage == "file":
        for seconds in jumps:
            set_clock(seconds)
            with running_server("headrace", flags=flags) as server:
                check(record, stored_messages(server.port))
                record.publish(server.port, count=10)
    sequences = sorted(record.acknowledged)
    assert sequences == list(range(1, len(sequences) + 1))
    print(
        f"clock +1 day, -1 day and back, {storage}: {len(sequences)} messages, 0 lost, 0 expired, sequences "
        f"without a gap; {bystander.describe()}"
    )


def test_a_clock_that_jumps_redelivers_nothing_and_forgets_no_duplicate(
    tmp_path: Path, set_clock: SetClock
) -> None:
    with running_server("headrace", flags=["-js", "-sd", str(tmp_path / "store")]) as server:
        create_stream(server.port, duplicate_window=7 * DAY_SECONDS * NANOSECONDS)
        with Connection(server.port) as client:
            config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 3600 * NANOSECONDS}
            client.request(
                "$JS.API.CONSUMER.DURABLE.CREATE.CRASH.C", {"stream_name": "CRASH", "config": config}
            )
            header = b"NATS/1.0\r\nNats-Msg-Id: one\r\n\r\n"
            publish = b"HPUB crash.1 _INBOX.p %d %d\r\n%b\r\n" % (len(header), len(header), header)
            client.send(b"SUB _INBOX.p 1\r\n" + publish)
            messages = client.messages()
            assert b'"seq":1' in next(messages)[2].replace(b" ", b"")
            pull = b'{"batch":10,"no_wait":true}'
            ask = b"PUB $JS.API.CONSUMER.MSG.NEXT.CRASH.C _INBOX.p %d\r\n%b\r\n" % (len(pull), pull)
            client.send(ask)
            assert next(messages)[3].startswith(b"$JS.ACK.CRASH.C.1.1.")
            assert next(messages)[1].startswith(b"NATS/1.0 4")  # there is no more
            duplicates = 0
            for seconds in (DAY_SECONDS, -DAY_SECONDS, 0):
                set_clock(seconds)
                client.send(publish)
                duplicates += b'"duplicate"' in next(messages)[2]
        with Connection(server.port) as client:
            for seconds in (DAY_SECONDS, -DAY_SECONDS, 0):
                set_clock(seconds)
                client.ping()
                info = client.request("$JS.API.CONSUMER.INFO.CRASH.C")
                assert (info["num_ack_pending"], info["num_redelivered"], info["num_pending"]) == (1, 0, 0)
            redelivered = client_pull(client)
    print(f"clock +1 day, -1 day and back: {duplicates} of 3 duplicates known, {redelivered} redelivered")
    assert duplicates == 3
    assert redelivered == 0


def client_pull(client: Connection) -> int:
    """How many messages a pull gets at once: 0 while all of them await their acknowledgement."""
    pull = b'{"batch":10,"no_wait":true}'
    client.send(
        b"SUB _INBOX.q 3\r\nPUB $JS.API.CONSUMER.MSG.NEXT.CRASH.C _INBOX.q %d\r\n%b\r\n" % (len(pull), pull)
    )
    return len(list(takewhile(lambda message: not message[1].startswith(b"NATS/1.0 4"), client.messages())))
