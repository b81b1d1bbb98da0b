"""The clients of a stream against a peer on a socket pair: what they check and what ends the run."""

from __future__ import annotations

import pytest

from headrace.bench.clients.stream_load import StreamLoad
from tests.engine.core.peers import peer

STEPS = (0, 1, 7)


def acknowledgement(number: int, body: bytes) -> bytes:
    return b"MSG in.%d 1 %d\r\n%b\r\n" % (number, len(body), body)


def stored(number: int, sequence: int) -> bytes:
    return acknowledgement(number, b'{"stream":"S", "seq":%d}' % sequence)


def publisher(descriptor: int, messages: int, message_id: bytes = b"") -> StreamLoad:
    load = StreamLoad(30.0)
    load.expect_sequences(11, messages)
    load.add_stream_publisher(descriptor, b"s", b"in.", b"hi", messages, 2, message_id)
    return load


def pulled(
    sequence: int, deliveries: int = 1, prefix: bytes = b"$JS.ACK.S.C", payload: bytes = b"hi"
) -> bytes:
    reply = b"%b.%d.%d.%d.1700000000000000000.0" % (prefix, deliveries, sequence, sequence)
    return b"MSG in 1 %b %d\r\n%b\r\n" % (reply, len(payload), payload)


@pytest.mark.parametrize("step", STEPS)
def test_every_acknowledgement_is_looked_into(step: int) -> None:
    with peer(b"".join(stored(number, 11 + number) for number in range(5)), step) as (connection, heard):
        load = publisher(connection.fileno(), 5)
        assert load.run() == "done"
    assert (load.refusals, load.duplicates) == (0, 0)
    assert b"".join(heard) == b"".join(b"PUB s in.%d 2\r\nhi\r\n" % number for number in range(5))


def test_message_ids_differ() -> None:
    with peer(b"".join(stored(number, 11 + number) for number in range(3))) as (connection, heard):
        assert publisher(connection.fileno(), 3, b"id-").run() == "done"
    frames = [
        b"HPUB s in.%d 42 44\r\nNATS/1.0\r\nNats-Msg-Id: id-%012d\r\n\r\nhi\r\n" % (number, number)
        for number in range(3)
    ]
    assert b"".join(heard) == b"".join(frames)


def test_one_that_expects_names_the_sequence_before_its_own() -> None:
    with peer(b"".join(stored(number, 9 + number) for number in range(4))) as (connection, heard):
        load = StreamLoad(30.0)
        load.expect_sequences(9, 4)
        load.add_stream_publisher(
            connection.fileno(), b"s", b"in.", b"hi", 4, 2, expects=b"Nats-Expected-Last-Sequence", first=9
        )
        assert load.run() == "done"
    headers = [b"NATS/1.0\r\nNats-Expected-Last-Sequence: %d\r\n\r\n" % last for last in (8, 9, 10, 11)]
    frames = [
        b"HPUB s in.%d %d %d\r\n%bhi\r\n" % (number, len(header), len(header) + 2, header)
        for number, header in enumerate(headers)
    ]
    assert b"".join(heard) == b"".join(frames)


def test_every_key_has_its_turn() -> None:
    with peer(b"".join(stored(number, 11 + number) for number in range(4))) as (connection, heard):
        load = StreamLoad(30.0)
        load.expect_sequences(11, 4)
        load.add_stream_publisher(connection.fileno(), b"s.", b"in.", b"hi", 4, 2, keys=3)
        assert load.run() == "done"
    keys = [7919 * number % 3 for number in range(4)]
    assert sorted(set(keys)) == [0, 1, 2]
    assert b"".join(heard) == b"".join(
        b"PUB s.%06d in.%d 2\r\nhi\r\n" % (key, number) for number, key in enumerate(keys)
    )


def value(number: int, key: int, payload: bytes = b"hi") -> bytes:
    headers = b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: s.%06d\r\nNats-Sequence: 1\r\n\r\n" % key
    return b"HMSG in.%d 1 %d %d\r\n%b\r\n" % (
        number,
        len(headers),
        len(headers + payload),
        headers + payload,
    )


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("answer", "status", "refusals"),
    [
        (value(2, 7919 * 2 % 10), "done", 0),
        (b"HMSG in.2 1 34 34\r\nNATS/1.0 404 Message Not Found\r\n\r\n\r\n", "done", 1),
        (b"MSG in.2 1 2\r\nhi\r\n", "done", 1),
        (value(2, 3), "garbled", 0),
        (value(2, 7919 * 2 % 10, b"longer"), "garbled", 0),
        (value(3, 7919 * 3 % 10), "garbled", 0),
        (value(1, 7919 % 10), "garbled", 0),
    ],
)
def test_every_value_is_looked_into(step: int, answer: bytes, status: str, refusals: int) -> None:
    first = value(0, 0) + value(1, 7919 % 10)
    with peer(first + answer, step) as (connection, heard):
        load = StreamLoad(30.0)
        load.add_getter(connection.fileno(), b"get.s.", b"in.", 2, 3, 1, 10)
        assert (load.run(), load.refusals) == (status, refusals)
    assert b"".join(heard).startswith(b"PUB get.s.000000 in.0 0\r\n\r\nPUB get.s.000009 in.1 0\r\n\r\n")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("answers", "refusals", "duplicates", "text"),
    [
        (
            [acknowledgement(0, b'{"error":{"code":503,"description":"no space"},"stream":"S","seq":0}')],
            1,
            0,
            "no space",
        ),
        ([b"HMSG in.0 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"], 1, 0, "NATS/1.0 503"),
        ([acknowledgement(0, b'{"stream":"S", "seq":3,"duplicate": true}')], 0, 1, ""),
    ],
)
def test_refusals_and_duplicates_are_counted(
    answers: list[bytes], refusals: int, duplicates: int, text: str, step: int
) -> None:
    with peer(b"".join([*answers, stored(1, 11)]), step) as (connection, _):
        load = publisher(connection.fileno(), 2)
        assert load.run() == "done"
    assert (load.refusals, load.duplicates) == (refusals, duplicates)
    assert text in load.first_refusal


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("body", "status", "refusals", "duplicates"),
    [
        (b'{"stream":"S", "seq":12,"domain":"D"}', "done", 0, 0),
        (b'{"stream":"S","seq":12}', "done", 0, 0),
        (b'{"stream":"S", "seq":11,"duplicate": true}', "done", 0, 1),
        (b'{"stream":"S", "seq":0,"error":{"code":503}}', "done", 1, 0),
        (b'{"stream":"S", "seq":11}', "garbled", 0, 0),
        (b'{"stream":"S", "seq":x}', "garbled", 0, 0),
        (b'{"stream":"S", "seq":}', "garbled", 0, 0),
        (b'{"stream":"S", ', "garbled", 0, 0),
        (b"}", "garbled", 0, 0),
        (b"", "garbled", 0, 0),
    ],
)
def test_an_acknowledgement_may_look_different_from_the_one_before(
    body: bytes, status: str, refusals: int, duplicates: int, step: int
) -> None:
    with peer(stored(0, 11) + acknowledgement(1, body) + stored(2, 13), step) as (connection, _):
        load = publisher(connection.fileno(), 3)
        assert load.run() == status
    assert (load.refusals, load.duplicates) == (refusals, duplicates)


@pytest.mark.parametrize(
    ("answers", "detail"),
    [
        ([stored(0, 10)], "sequence 10 is not one that was to come now"),
        ([stored(0, 13)], "sequence 13 is not one that was to come now"),
        ([stored(0, 11), stored(1, 11)], "sequence 11 is not one that was to come now"),
        ([stored(0, 12), stored(1, 11)], "stored in another order"),
        ([stored(1, 11), stored(0, 12)], "stored in another order"),
        ([acknowledgement(0, b"OK")], "OK"),
        ([acknowledgement(0, b'{"stream":"S","seq":}')], "seq"),
        ([stored(0, 11), stored(0, 12)], "another order"),
        ([stored(7, 11)], "MSG in.7"),
    ],
)
def test_an_implausible_acknowledgement_ends_the_run(answers: list[bytes], detail: str) -> None:
    with peer(b"".join(answers)) as (connection, _):
        load = publisher(connection.fileno(), 2)
        assert load.run() == "garbled"
    assert detail in load.failure[1]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("prefix", [b"$JS.ACK.S.C", b"$JS.ACK._.hash.S.C"])
def test_one_that_pulls_acknowledges_and_asks_again(prefix: bytes, step: int) -> None:
    data = b"".join(pulled(sequence, prefix=prefix) for sequence in (5, 6, 7))
    with peer(data, step) as (connection, heard):
        load = StreamLoad(30.0)
        load.add_puller(connection.fileno(), "S", "C", b"in", 2, True, 5, 3)
        assert load.run() == "done"
    assert load.clients[0][:3] == ("subscriber", 3, 6)
    requests, text = b"$JS.API.CONSUMER.MSG.NEXT.S.C in", b"".join(heard)
    assert text.count(b"PUB %b" % requests) == 2
    assert text.index(b'{"batch":2,"expires":600000000000}') < text.index(b'{"batch":1,"expires"')
    for sequence in (5, 6, 7):
        reply = b"%b.1.%d.%d.1700000000000000000.0" % (prefix, sequence, sequence)
        assert text.count(b"PUB %b 4\r\n+ACK\r\n" % reply) == 1


def test_headers_do_not_count_as_payload() -> None:
    reply = b"$JS.ACK.S.C.1.1.1.1700000000000000000.0"
    data = b"HMSG in 1 %b 18 20\r\nNATS/1.0\r\na: b\r\n\r\nhi\r\n" % reply
    with peer(data) as (connection, heard):
        load = StreamLoad(30.0)
        load.add_puller(connection.fileno(), "S", "C", b"in", 1, False, 1, 1)
        assert load.run() == "done"
    assert load.clients[0][:3] == ("subscriber", 1, 2)
    assert b"+ACK" not in b"".join(heard)


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize(
    ("data", "status", "detail"),
    [
        (pulled(2), "garbled", "message 2 after 0"),
        (pulled(1) + pulled(1), "garbled", "message 1 after 1"),
        (pulled(1, deliveries=2), "garbled", "message 1 came again"),
        (pulled(1, prefix=b"$JS.ACK.C"), "garbled", "$JS.ACK.C.1.1.1"),
        (b"HMSG in 1 28 28\r\nNATS/1.0 409 Bad Request\r\n\r\n\r\n", "refused", "NATS/1.0 409 Bad Request"),
        (b"MSG in 1 2\r\nhi\r\n", "refused", ""),
        (b"MSG in 1\r\nx\r\n", "garbled", "MSG in 1"),
        (b"HMSG in 1 2 1\r\n", "garbled", "HMSG in 1 2 1"),
        (b"HMSG in 1 x 1\r\n", "garbled", "HMSG in 1 x 1"),
    ],
)
def test_what_should_not_come_ends_the_run(data: bytes, status: str, detail: str, step: int) -> None:
    with peer(data, step) as (connection, _):
        load = StreamLoad(30.0)
        load.add_puller(connection.fileno(), "S", "C", b"in", 2, True, 1, 2)
        assert load.run() == status
    assert detail in load.failure[1]


@pytest.mark.parametrize(
    ("sequences", "status"),
    [((1, 2, 3), "done"), ((3, 1, 2), "done"), ((1, 2, 2), "garbled"), ((4,), "garbled")],
)
def test_those_who_share_get_each_sequence_once(sequences: tuple[int, ...], status: str) -> None:
    with peer(b"".join(pulled(sequence) for sequence in sequences)) as (connection, _):
        load = StreamLoad(30.0)
        load.add_sharing_puller(connection.fileno(), "S", "C", b"in", 2, False)
        load.expect_shared(3)
        load.expect_sequences(1, 3)
        assert load.run() == status


def test_what_makes_no_sense_is_refused() -> None:
    load = StreamLoad()
    load.expect_sequences(1, 1)
    for wrong in (
        lambda: load.expect_sequences(1, 1),
        lambda: load.add_stream_publisher(0, b"s", b"in.", b"", 1, 0),
        lambda: load.add_stream_publisher(0, b"s" * 4000, b"in.", b"", 1, 1),
        lambda: load.add_getter(0, b"s", b"in.", 1, 1, 1, 0),
        lambda: load.add_puller(0, "S", "C", b"in", 0, True, 1, 1),
        lambda: load.add_puller(0, "S" * 4000, "C", b"in", 1, True, 1, 1),
    ):
        with pytest.raises(ValueError, match=r"needs|once|at least|long"):
            wrong()
