"""The load loop against a peer on a socket pair: what it counts, and what it refuses to believe."""

import socket

import pytest

from headrace.bench.clients.load import Load
from tests.engine.core.peers import FRAME, peer

# Every sample: the bytes that a server sends, and the messages and payload bytes that are in them.
SAMPLES = {
    "like frames": (FRAME * 1000, 1000, 5000),
    "a PING between like frames": (FRAME * 500 + b"PING\r\n" + FRAME * 500, 1000, 5000),
    "an INFO first": (b'INFO {"server_id":"x"}\r\n' + FRAME * 3, 3, 15),
    "frames of another length in between": (FRAME * 10 + b"MSG bench 1 0\r\n\r\n" + FRAME * 10, 21, 100),
    "a reply subject": (b"MSG bench 1 answer.here 2\r\nhi\r\n", 1, 2),
    "headers, which do not count": (b"HMSG bench 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n" * 3, 3, 6),
    "a payload that looks like a frame": (b"MSG bench 1 22\r\n" + FRAME + b"\r\n", 1, 22),
}
GARBAGE = {
    "an unknown operation": b"NONSENSE\r\n",
    "a length that is no number": b"MSG bench 1 5x\r\n",
    "no length": b"MSG bench 1 \r\n",
    "a length beyond any payload": b"MSG bench 1 999999999\r\n",
    "a length beyond any integer": b"MSG bench 1 99999999999999999999999\r\n",
    "a control line without an end": b"MSG " + b"a" * 5000,
    "a control line beyond the limit": b"MSG " + b"a" * 5000 + b" 1 5\r\n",
    "headers that are longer than the message": b"HMSG bench 1 12 11\r\nNATS/1.0\r\n\r\n\r\n",
}


@pytest.mark.parametrize("same_frames", [True, False])
@pytest.mark.parametrize("step", [0, 1, 7, 4096])
@pytest.mark.parametrize("name", SAMPLES)
def test_a_subscriber_counts_every_message_and_byte(name: str, step: int, same_frames: bool) -> None:
    data, messages, payload_bytes = SAMPLES[name]
    with peer(data, step) as (connection, _):
        load = Load(30.0)
        load.add_subscriber(connection.fileno(), messages, same_frames)
        assert load.run() == "done"
    assert load.clients[0][:3] == ("subscriber", messages, payload_bytes)


@pytest.mark.parametrize("name", GARBAGE)
@pytest.mark.parametrize("step", [0, 1])
def test_a_subscriber_stops_at_garbage(name: str, step: int) -> None:
    with peer(FRAME + GARBAGE[name], step) as (connection, _):
        load = Load(30.0)
        load.add_subscriber(connection.fileno(), 2, True)
        assert load.run() == "garbled"
    assert load.failure[0] == 0
    assert load.clients[0][1] == 1


def test_surplus_messages_are_counted_too() -> None:
    with peer(FRAME * 12) as (connection, _):
        load = Load(30.0)
        load.add_subscriber(connection.fileno(), 10, True)
        assert load.run() == "done"
    assert load.clients[0][1] == 12


def test_a_ping_is_answered() -> None:
    with peer(b"PING\r\n" + FRAME) as (connection, heard):
        load = Load(30.0)
        load.add_subscriber(connection.fileno(), 1, True)
        assert load.run() == "done"
    assert b"".join(heard) == b"PONG\r\nPING\r\n"


@pytest.mark.parametrize("write_length", [10, 30, 64])
def test_a_publisher_repeats_its_block_and_ends_with_a_ping(write_length: int) -> None:
    block = b"PUB a 3\r\nabc\r\n"
    with peer(b"") as (connection, heard):
        load = Load(30.0)
        load.add_publisher(connection.fileno(), block * 3, len(block) * 100, write_length)
        assert load.run() == "done"
    assert b"".join(heard) == block * 100 + b"PING\r\n"


def test_a_publisher_of_nothing_only_pings() -> None:
    with peer(b"") as (connection, heard):
        load = Load(30.0)
        load.add_publisher(connection.fileno(), b"PUB a 0\r\n\r\n", 0, 100)
        assert load.run() == "done"
    assert b"".join(heard) == b"PING\r\n"


def test_silence_ends_as_a_stall_and_the_tick_is_called() -> None:
    ticks: list[int] = []
    with peer(FRAME) as (connection, _):
        load = Load(2.0)
        load.add_subscriber(connection.fileno(), 2, True)
        assert load.run(lambda: ticks.append(1)) == "stalled"
    assert ticks
    assert load.clients[0][1] == 1


def test_a_refusal_is_quoted() -> None:
    with peer(b"-ERR 'Slow Consumer'\r\n") as (connection, _):
        load = Load(30.0)
        load.add_subscriber(connection.fileno(), 1, True)
        assert load.run() == "refused"
    assert load.failure == (0, "-ERR 'Slow Consumer'")


def test_a_closed_connection_ends_the_run() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        load = Load(30.0)
        load.add_subscriber(ours.fileno(), 1, True)
        assert load.run() == "closed"


@pytest.mark.parametrize(
    "answer",
    [b"MSG in.7 1 0\r\n\r\n", b"MSG in. 1 0\r\n\r\n", b"MSG in.0 1 0\r\n\r\n" * 2, b"MSG in.x 1 0\r\n\r\n"],
    ids=["never asked", "no token", "answered twice", "not a number"],
)
def test_an_answer_to_no_open_request_is_refused(answer: bytes) -> None:
    with peer(answer) as (connection, _):
        load = Load(30.0)
        load.add_requester(connection.fileno(), b"service", b"in.", b"", 4, 4)
        assert load.run() == "garbled"


def test_a_load_runs_once() -> None:
    load = Load()
    with peer(FRAME) as (connection, _):
        load.add_subscriber(connection.fileno(), 1, True)
        load.run()
        with pytest.raises(ValueError, match="runs once"):
            load.run()
