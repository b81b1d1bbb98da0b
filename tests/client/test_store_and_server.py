"""The files of a running server and the server itself: the same rows, the same figures, the same errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.client import SCHEMA, Client, StreamInfo
from headrace.client.store_directory import StoreDirectory
from headrace.errors import HeadraceError
from tests.client.streams import Streams, header_array
from tests.servers import running_server


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def streams(home: Path) -> Iterator[Streams]:
    with (
        running_server("headrace", flags=["-js", "-sd", str(home)]) as server,
        Client.connect(f"nats://{server.host}:{server.port}", request_timeout=30) as client,
    ):
        yield Streams(client)


SECOND = 1_000_000_000


def rows(source: Client | StoreDirectory, stream: str, first: int, last: int, **options: Any) -> pa.Table:
    return pa.Table.from_batches(source.fetch_range(stream, first, last, **options), SCHEMA)


def outcome(work: Callable[[], Any]) -> Any:
    """What it returns, or its error as users see it."""
    try:
        return work()
    except HeadraceError as error:
        return type(error), error.message, error.hint


def figures(info: StreamInfo) -> StreamInfo:
    """A stream that never had a message begins at 0, or at 1 after a purge of nothing, until a restart."""
    return msgspec.structs.replace(info, first_seq=max(info.first_seq, 1))


def wait_for_removals(directory: StoreDirectory, told: StreamInfo) -> None:
    """What a server removes by itself is gone for its clients before it is recorded."""
    deadline = time.monotonic() + 30
    while directory.stream_info(told.name).messages > told.messages:
        assert time.monotonic() < deadline, "what was removed is still in the files"
        time.sleep(0.02)


def check_same(client: Client, home: Path, stream: str) -> None:
    directory = StoreDirectory(str(home))
    told = client.stream_info(stream)
    assert directory.stream_info(stream).last_seq == told.last_seq
    wait_for_removals(directory, told)
    assert figures(directory.stream_info(stream)) == figures(told)
    assert directory.deleted_sequences(stream) == client.deleted_sequences(stream)
    first, last = max(told.first_seq, 1), told.last_seq
    middle = (first + last) // 2
    for start, end in (first, last), (1, last), (middle, last), (first, middle), (1, last + 1):
        for options in {}, {"fail_on_loss": True}, {"subjects": "s.a"}, {"subjects": ["s.*.x", "s.b"]}:
            wanted = outcome(lambda: rows(client, stream, start, end, **options))  # noqa: B023
            assert outcome(lambda: rows(directory, stream, start, end, **options)) == wanted  # noqa: B023
    for moment in 0, told.first_time, told.first_time + 1, told.last_time, told.last_time + 1:
        assert directory.seq_at_time(stream, moment) == client.seq_at_time(stream, moment)


STEPS = st.one_of(
    st.tuples(
        st.just("publish"),
        st.sampled_from(["s.a", "s.b", "s.a.x", "s.ä"]),
        st.integers(1, 40),
        st.integers(0, 300),
        st.booleans(),
    ),
    st.tuples(st.just("delete"), st.integers(0, 30), st.booleans()),
    st.tuples(st.just("purge"), st.sampled_from([{}, {"filter": "s.b"}, {"keep": 5}])),
    st.tuples(st.just("purge_to"), st.integers(0, 20)),
    st.tuples(
        st.just("limit"),
        st.sampled_from([{"max_msgs": 20}, {"max_bytes": 4000}, {"max_msgs_per_subject": 3}, {}]),
        st.sampled_from(["none", "s2"]),
    ),
)


class Life:
    """A stream and what happens to it."""

    def __init__(self, streams: Streams, first_seq: int) -> None:
        self.streams = streams
        self.name = streams.create(subjects=[], **({"first_seq": first_seq} if first_seq else {}))
        self.subject = f"{self.name}.s"
        streams.api(f"STREAM.UPDATE.{self.name}", name=self.name, subjects=["s.>"])

    def publish(self, subject: str, count: int, size: int, headers: bool) -> None:
        publisher = self.streams.client.publisher(stream=self.name)
        data = pa.array([str(number).zfill(size) for number in range(count)])
        pairs = header_array([[("Kind", f"new {number}")] for number in range(count)]) if headers else None
        publisher.publish(subject, data, pairs)
        publisher.flush()

    def delete(self, distance: int, erase: bool) -> None:
        info = self.streams.client.stream_info(self.name)
        if info.messages:
            seqs = [info.first_seq + distance, info.last_seq - distance]
            gone = set(self.streams.client.deleted_sequences(self.name))
            for seq in set(seqs) - gone:
                if info.first_seq <= seq <= info.last_seq:
                    self.streams.api(f"STREAM.MSG.DELETE.{self.name}", seq=seq, no_erase=not erase)

    def purge(self, how: dict[str, Any]) -> None:
        self.streams.purge(self.name, **how)

    def purge_to(self, distance: int) -> None:
        self.streams.purge(self.name, seq=self.streams.client.stream_info(self.name).first_seq + distance)

    def limit(self, limits: dict[str, int], compression: str) -> None:
        config = {"name": self.name, "subjects": ["s.>"], "compression": compression, **limits}
        self.streams.api(f"STREAM.UPDATE.{self.name}", **config)


@given(steps=st.lists(STEPS, min_size=1, max_size=12), first_seq=st.sampled_from([0, 0, 1000]))
@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_a_day_in_the_life_of_a_stream(
    streams: Streams, home: Path, steps: list[tuple[Any, ...]], first_seq: int
) -> None:
    try:
        life = Life(streams, first_seq)
        for name, *arguments in steps:
            getattr(life, name)(*arguments)
        check_same(streams.client, home, life.name)
    finally:
        streams.delete_all()


def test_messages_that_expire(streams: Streams, home: Path) -> None:
    name = streams.create(subjects=["old.>"], max_age=3600 * SECOND, duplicate_window=SECOND)
    streams.fill(name, 100, "old.a")
    check_same(streams.client, home, name)
    config = {"name": name, "subjects": ["old.>"], "max_age": SECOND, "duplicate_window": SECOND}
    streams.api(f"STREAM.UPDATE.{name}", **config)
    deadline = time.monotonic() + 30
    while streams.client.stream_info(name).messages:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    check_same(streams.client, home, name)


def test_a_mirror(streams: Streams, home: Path) -> None:
    origin = streams.create(subjects=["from.>"])
    streams.fill(origin, 100, "from.a")
    streams.delete_message(origin, 17)
    mirror = streams.create("MIRROR", subjects=[], mirror={"name": origin})
    streams.await_messages(mirror, 99)
    check_same(streams.client, home, mirror)


def test_a_restart_and_a_copy(tmp_path: Path) -> None:
    """Also of a server that was killed: what it had acknowledged is in its files."""
    store = tmp_path / "store"
    found: list[pa.Table] = []
    for _ in range(3):
        with running_server("headrace", flags=["-js", "-sd", str(store)]) as server:
            with Client.connect(f"nats://{server.host}:{server.port}") as client:
                streams = Streams(client)
                if not found:
                    streams.create("ORDERS")
                streams.fill("ORDERS", 1000)
                streams.delete_message("ORDERS", client.stream_info("ORDERS").last_seq - 10)
                check_same(client, store, "ORDERS")
                found.append(rows(client, "ORDERS", 1, client.stream_info("ORDERS").last_seq))
            if len(found) == 2:
                server.process.kill()
        info = StoreDirectory(str(store)).stream_info("ORDERS")
        assert info.last_seq == 1000 * len(found)
        assert rows(StoreDirectory(str(store)), "ORDERS", 1, info.last_seq).equals(found[-1])


def test_a_stream_in_memory_has_no_files(streams: Streams, home: Path) -> None:
    name = streams.create(subjects=["quick.>"], storage="memory")
    assert streams.client.stream_info(name).storage == "memory"
    _, text, hint = outcome(lambda: StoreDirectory(str(home)).stream_info(name))
    assert "there is no such stream in" in text
    assert "streams in memory have no files" in hint
