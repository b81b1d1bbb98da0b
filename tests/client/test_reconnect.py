"""A server dies and comes back while rows are read and messages published: nothing lost, nothing twice."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.client import (
    Client,
    ConnectionFailed,
    MessagesMissing,
    Publisher,
    PublishFailed,
    StreamNotFound,
)
from tests.client.streams import Streams, read
from tests.servers import Server, ServerKind, reserved_port, running_server

ROWS, ROW_BYTES = 2500, 16_384  # more than the buffers of a connection hold


class Mortal:
    """A server on a port of its own that can be killed and started again with what it has stored."""

    def __init__(self, kind: ServerKind, store: Path, options: str = "") -> None:
        self._kind = kind
        self._config = f'jetstream {{ store_dir: "{store}", {options} }}'
        self._stack = ExitStack()
        self.port = self._stack.enter_context(reserved_port())
        self._server = self._start()
        self.url = f"nats://127.0.0.1:{self.port}"

    def _start(self) -> Server:
        return self._stack.enter_context(running_server(self._kind, self._config, ["-p", str(self.port)]))

    def freeze(self) -> None:
        """From now on it acknowledges nothing: all of its threads have stopped when this returns."""
        self._server.process.send_signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self._server.process.pid}/task")
        while not all(map(_is_stopped, threads.iterdir())):
            time.sleep(0.001)

    def kill(self) -> None:
        self._server.process.kill()
        self._server.process.wait()

    def restart(self) -> None:
        self.kill()
        self._server = self._start()

    def stop(self) -> None:
        self._stack.close()


def _is_stopped(thread: Path) -> bool:
    """One that has just ended is not, so that all are looked at again."""
    try:
        return " T " in (thread / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def mortal(request: pytest.FixtureRequest, kind: ServerKind, store: Path) -> Iterator[Mortal]:
    server = Mortal(kind, store, getattr(request, "param", ""))
    yield server
    server.stop()


@pytest.fixture
def client(mortal: Mortal) -> Iterator[Client]:
    with Client.connect(mortal.url, connect_timeout=30, request_timeout=30) as client:
        yield client


def test_a_fetch_continues_with_the_next_sequence(client: Client, mortal: Mortal, streams: Streams) -> None:
    name = streams.create()
    streams.fill(name, ROWS, size=ROW_BYTES)
    seqs: list[int] = []
    for number, batch in enumerate(client.fetch_range(name, 1, ROWS, batch_rows=50)):
        seqs += batch["seq"].to_pylist()
        if number in (1, 5):
            mortal.restart()
    assert seqs == list(range(1, ROWS + 1))


def test_messages_that_are_gone_after_a_restart_are_an_error(
    client: Client, mortal: Mortal, streams: Streams
) -> None:
    """A stream that does not reach the end of the range any more gives an error, not a short answer."""
    name = streams.create(storage="memory")
    streams.fill(name, 60_000)
    batches = client.fetch_range(name, 1, 60_000, batch_rows=1000)
    next(batches)
    mortal.restart()
    streams.made.clear()
    with pytest.raises((MessagesMissing, StreamNotFound)):
        for _ in batches:
            pass


# The server is to lose nothing that it acknowledged: nats-server needs to be asked for that.
@pytest.mark.parametrize("mortal", ["sync_interval: always"], indirect=True)
def test_a_publisher_sends_again_what_was_not_acknowledged(
    client: Client, mortal: Mortal, streams: Streams
) -> None:
    name = streams.create(max_msg_size=100)
    publisher = client.publisher(stream=name, max_in_flight=500)
    for number in range(6):
        names = [f"{number}-{row}" for row in range(500)]
        publisher.publish("s.a", pa.array(names), msg_ids=pa.array(names))
        if number in (1, 4):
            mortal.restart()
    assert publisher.flush().acked == 3000
    data = read(client, name)["data"].to_pylist()
    assert len(data) == len(set(data)) == 3000
    assert set(data) == {b"%d-%d" % (number, row) for number in range(6) for row in range(500)}


def test_without_ids_the_fate_of_messages_is_unknown(
    client: Client, mortal: Mortal, streams: Streams
) -> None:
    streams.create()
    publisher = client.publisher(max_in_flight=500)
    mortal.freeze()
    publisher.publish("s.a", pa.array(["x"] * 500))
    mortal.restart()
    with pytest.raises(PublishFailed, match="it is unknown whether 500 messages without a message id"):
        publisher.flush()


def test_acknowledged_messages_need_no_ids(client: Client, mortal: Mortal, streams: Streams) -> None:
    name = streams.create()
    publisher = client.publisher()
    for _ in range(2):
        publisher.publish("s.a", pa.array(["x"] * 50))
        publisher.flush()
        mortal.restart()
    assert client.stream_info(name).messages == 100


def test_requests_survive_a_restart_in_between(client: Client, mortal: Mortal, streams: Streams) -> None:
    name = streams.create()
    for _ in range(2):
        mortal.restart()
        assert client.stream_info(name).messages == 0
        assert client.stream_names() == [name]


def test_a_server_that_stays_away(mortal: Mortal) -> None:
    with Client.connect(mortal.url, reconnect_timeout=0.5) as client:
        streams = Streams(client)
        name = streams.create()
        streams.fill(name, ROWS, size=ROW_BYTES)
        batches = client.fetch_range(name, 1, ROWS, batch_rows=10)
        publisher = client.publisher()
        publisher.publish("s.a", pa.array(["x"]), msg_ids=pa.array(["x"]))
        next(batches)
        mortal.kill()
        with pytest.raises(ConnectionFailed, match="no server listens at"):
            for _ in batches:
                pass
        with pytest.raises(ConnectionFailed, match="no server listens at"):
            client.stream_info(name)
        with pytest.raises(PublishFailed, match="no server listens at"):
            _publish_and_flush(publisher)


def test_another_server_of_the_list_takes_over(kind: ServerKind, mortal: Mortal, store: Path) -> None:
    other = Mortal(kind, store.with_name("other"))
    try:
        with Client.connect([mortal.url, other.url]) as client:
            assert client.stream_names() == []
            mortal.kill()
            assert client.stream_names() == []
    finally:
        other.stop()


def _publish_and_flush(publisher: Publisher) -> None:
    publisher.publish("s.a", pa.array(["y"]), msg_ids=pa.array(["y"]))
    publisher.flush()
