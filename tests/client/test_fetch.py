"""Reading ranges of real streams: every message that is there, once, in order, with all of it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.client import SCHEMA, Client, MessagesMissing, StreamNotFound
from headrace.errors import UsageError
from tests.client.streams import Streams, header_array, read, send_raw
from tests.servers import Server, ServerKind, running_server


def test_a_range_is_read_in_order_with_its_sequences(client: Client, streams: Streams) -> None:
    name = streams.create()
    streams.fill(name, 1000)
    table = read(client, name, 11, 990)
    assert table.schema.equals(SCHEMA)
    assert table["seq"].to_pylist() == list(range(11, 991))
    assert table["data"].to_pylist() == [b"%08d" % number for number in range(11, 991)]
    assert set(table["subject"].to_pylist()) == {"s.a"}
    assert set(table["stream"].to_pylist()) == {name}


def test_times_are_those_of_the_stream(client: Client, streams: Streams) -> None:
    name = streams.create()
    streams.fill(name, 3)
    info = client.stream_info(name)
    times = read(client, name)["timestamp"].to_pylist()
    assert times[0] == datetime.fromtimestamp(info.first_time // 1000 / 1e6, UTC)
    assert times[-1] == datetime.fromtimestamp(info.last_time // 1000 / 1e6, UTC)
    assert times == sorted(times)


def test_sequences_of_every_length(client: Client, streams: Streams) -> None:
    """As the server writes them, in acknowledgements and deliveries."""
    for digits in range(1, 19):
        name = streams.create(subjects=[f"long.{digits}"], first_seq=10**digits - 1, storage="memory")
        streams.fill(name, 2, subject=f"long.{digits}")
        seqs = [10**digits - 1, 10**digits]
        assert read(client, name, *seqs)["seq"].to_pylist() == seqs


@pytest.mark.parametrize("batch_rows", [1, 7, 100_000])
def test_batches_have_at_most_the_rows_that_were_asked_for(
    client: Client, streams: Streams, batch_rows: int
) -> None:
    name = streams.create()
    streams.fill(name, 100)
    batches = list(client.fetch_range(name, 1, 100, batch_rows=batch_rows))
    assert [batch.num_rows for batch in batches[:-1]] == [batch_rows] * (len(batches) - 1)
    assert pa.Table.from_batches(batches)["seq"].to_pylist() == list(range(1, 101))


def test_more_rows_than_several_pulls_have(client: Client, streams: Streams) -> None:
    name = streams.create(storage="memory")
    streams.fill(name, 80_000)
    table = read(client, name)
    assert table["seq"].to_pylist() == list(range(1, 80_001))


def test_an_empty_range_has_no_batches(client: Client, streams: Streams) -> None:
    name = streams.create()
    assert list(client.fetch_range(name, 1, 0)) == []
    streams.fill(name, 3)
    assert list(client.fetch_range(name, 3, 2)) == []


def test_deleted_messages_are_gaps(client: Client, streams: Streams) -> None:
    name = streams.create()
    streams.fill(name, 50)
    gone = {1, 2, 17, 30, 31, 32, 49, 50}
    for seq in gone:
        streams.delete_message(name, seq)
    assert read(client, name, 1, 50)["seq"].to_pylist() == [seq for seq in range(1, 51) if seq not in gone]


def test_a_range_whose_messages_are_all_deleted_is_empty(client: Client, streams: Streams) -> None:
    name = streams.create()
    streams.fill(name, 20)
    for seq in range(5, 11):
        streams.delete_message(name, seq)
    assert read(client, name, 5, 10).num_rows == 0
    streams.purge(name)
    assert read(client, name, 1, 20).num_rows == 0


@pytest.mark.parametrize(
    ("subjects", "expected"),
    [
        (["s.a"], ["s.a"]),
        (["s.*"], ["s.a", "s.b"]),
        (["s.>"], ["s.a", "s.b", "s.b.c"]),
        (["s.b.*", "s.a"], ["s.a", "s.b.c"]),
        (["s.nothing"], []),
    ],
)
def test_filters_choose_subjects(
    client: Client, streams: Streams, subjects: list[str], expected: list[str]
) -> None:
    name = streams.create()
    publisher = client.publisher()
    publisher.publish(pa.array(["s.a", "s.b", "s.b.c"] * 40), pa.array([b""] * 120))
    publisher.flush()
    table = read(client, name, 1, 119, subjects=subjects)
    assert sorted(set(table["subject"].to_pylist())) == expected
    everything = read(client, name, 1, 119)
    wanted = [
        seq
        for seq, subject in zip(everything["seq"].to_pylist(), everything["subject"].to_pylist(), strict=True)
        if subject in expected
    ]
    assert table["seq"].to_pylist() == wanted


def test_headers_none_one_many_twice_and_empty(client: Client, streams: Streams) -> None:
    name = streams.create()
    headers = [
        [],
        [("k", "v")],
        [(f"key-{number}", str(number)) for number in range(200)],
        [("twice", "1"), ("other", "x"), ("twice", "2")],
        [("empty", ""), ("also", "")],
        None,
        [("url", "http://x:80/?a=b"), ("ключ", "значение")],
    ]
    publisher = client.publisher()
    publisher.publish("s.a", pa.array([b"x"] * len(headers)), header_array(headers))
    publisher.flush()
    read_back = [
        [(header["key"], header["value"]) for header in row]
        for row in read(client, name)["headers"].to_pylist()
    ]
    assert read_back == [list(row or []) for row in headers]
    assert read(client, name, headers=False)["headers"].to_pylist() == [[]] * len(headers)


def test_header_blocks_that_are_odd_are_read_as_far_as_they_make_sense(
    client: Client, streams: Streams, server: Server
) -> None:
    name = streams.create()
    block = b"NATS/1.0\r\nno colon\r\n: no key\r\ngood:  value \r\nraw: \xff\xfe\r\n\r\n"
    send_raw(server.host, server.port, b"HPUB s.a %d %d\r\n%bx\r\n" % (len(block), len(block) + 1, block))
    streams.await_messages(name, 1)
    assert read(client, name)["headers"].to_pylist() == [
        [{"key": "good", "value": "value"}, {"key": "raw", "value": "��"}]
    ]


def test_subjects_that_are_not_utf8_get_replacement_characters_and_payloads_stay(
    client: Client, streams: Streams, server: Server
) -> None:
    name = streams.create()
    send_raw(server.host, server.port, b"PUB s.\xff\xfe 3\r\n\xff\x00\n\r\nPUB s.\xc3\xa4 0\r\n\r\n")
    streams.await_messages(name, 2)
    table = read(client, name)
    assert table["subject"].to_pylist() == ["s.��", "s.ä"]
    assert table["data"].to_pylist() == [b"\xff\x00\n", b""]


def test_messages_of_a_megabyte(client: Client, streams: Streams) -> None:
    name = streams.create()
    payloads = [os.urandom(1 << 20) for _ in range(40)]
    publisher = client.publisher(max_in_flight=8)
    publisher.publish("s.a", pa.array(payloads))
    publisher.flush()
    batches = list(client.fetch_range(name, 1, 40))
    assert len(batches) > 1, "a batch is bounded in bytes, too"
    assert [data for batch in batches for data in batch["data"].to_pylist()] == payloads


def test_messages_that_are_larger_than_a_pull(kind: ServerKind, store: Path) -> None:
    config = f'max_payload: 32MB, jetstream {{ store_dir: "{store}" }}'
    with (
        running_server(kind, config) as server,
        Client.connect(f"{server.host}:{server.port}") as client,
    ):
        name = Streams(client).create(storage="memory")
        payloads = [b"small", b"x" * (20 << 20), b"y" * (30 << 20), b"small"]
        publisher = client.publisher(max_in_flight=1)
        publisher.publish("s.a", pa.array(payloads))
        publisher.flush()
        assert read(client, name)["data"].to_pylist() == payloads


def test_a_range_beyond_the_end_is_an_error_not_a_short_answer(client: Client, streams: Streams) -> None:
    name = streams.create()
    streams.fill(name, 10)
    with pytest.raises(MessagesMissing, match="ends at 10"):
        read(client, name, 1, 11)


def test_an_unknown_stream(client: Client) -> None:
    with pytest.raises(StreamNotFound, match="there is no such stream") as caught:
        client.fetch_range("NOBODY", 1, 2)
    assert (caught.value.code, caught.value.err_code) == (404, 10059)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "*", ">", "a/b"])
def test_a_name_that_no_stream_can_have(client: Client, name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid stream name"):
        client.stream_info(name)


@pytest.mark.parametrize(("first", "batch_rows"), [(0, 10), (-1, 10), (1, 0), (1, -1), (1, 1 << 23)])
def test_numbers_that_make_no_sense(client: Client, streams: Streams, first: int, batch_rows: int) -> None:
    name = streams.create()
    with pytest.raises(UsageError):
        client.fetch_range(name, first, 1, batch_rows=batch_rows)


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_a_stream_whose_messages_reading_would_remove_is_not_read(
    client: Client, streams: Streams, retention: str
) -> None:
    name = streams.create(retention=retention)
    with pytest.raises(UsageError, match=retention):
        client.fetch_range(name, 1, 1)


def test_a_purge_during_a_fetch_ends_it_without_the_purged(client: Client, streams: Streams) -> None:
    name = streams.create()
    streams.fill(name, 60_000)
    rows = client.fetch_range(name, 1, 60_000, batch_rows=1000)
    seqs = next(rows)["seq"].to_pylist()
    streams.purge(name)
    for batch in rows:
        seqs += batch["seq"].to_pylist()
    assert seqs == list(range(1, len(seqs) + 1))
    assert 1000 <= len(seqs) < 60_000


def test_a_purge_before_the_reader_is_a_loss_for_those_who_care(client: Client, streams: Streams) -> None:
    name = streams.create()
    streams.fill(name, 60_000)
    rows = client.fetch_range(name, 1, 60_000, batch_rows=1000, fail_on_loss=True)
    next(rows)
    streams.purge(name, seq=55_000)
    with pytest.raises(MessagesMissing, match="starts at 55000"):
        for _ in rows:
            pass
    with pytest.raises(MessagesMissing, match="messages from 1 are gone"):
        client.fetch_range(name, 1, 60_000, fail_on_loss=True)


def test_deletes_are_no_loss(client: Client, streams: Streams) -> None:
    name = streams.create()
    streams.fill(name, 20)
    for seq in (5, 6, 20):
        streams.delete_message(name, seq)
    assert read(client, name, 1, 20, fail_on_loss=True).num_rows == 17
    assert read(client, name, 5, 20, fail_on_loss=True).num_rows == 13


def test_a_stream_that_is_re_created_during_a_fetch_is_an_error(client: Client, streams: Streams) -> None:
    """In memory: nats-server removes files late, and perhaps those of the new stream."""
    name = streams.create(storage="memory")
    streams.fill(name, 60_000)
    rows = client.fetch_range(name, 1, 60_000, batch_rows=1000)
    next(rows)
    streams.delete_all()
    streams.create(name, storage="memory")
    streams.fill(name, 60_000)
    with pytest.raises(MessagesMissing, match="re-created"):
        for _ in rows:
            pass


def test_a_stream_that_is_deleted_during_a_fetch_is_an_error(client: Client, streams: Streams) -> None:
    name = streams.create()
    streams.fill(name, 60_000)
    rows = client.fetch_range(name, 1, 60_000, batch_rows=1000)
    next(rows)
    streams.delete_all()
    with pytest.raises(StreamNotFound):
        for _ in rows:
            pass


def test_new_messages_during_a_fetch_do_not_matter(client: Client, streams: Streams) -> None:
    name = streams.create()
    streams.fill(name, 5000)
    seqs = []
    for batch in client.fetch_range(name, 1, 5000, batch_rows=500):
        seqs += batch["seq"].to_pylist()
        streams.fill(name, 100)
    assert seqs == list(range(1, 5001))


def test_a_fetch_leaves_no_consumer_behind(client: Client, streams: Streams) -> None:
    name = streams.create()
    streams.fill(name, 50_000)
    read(client, name)
    abandoned = client.fetch_range(name, 1, 50_000, batch_rows=10)
    next(abandoned)
    streams.await_consumers(name, 1)
    abandoned.close()
    client.seq_at_time(name, 0)
    streams.await_consumers(name, 0)  # by itself a consumer would end after a minute


def test_several_fetches_of_one_client_at_once(client: Client, streams: Streams) -> None:
    name = streams.create()
    streams.fill(name, 20_000)
    one = client.fetch_range(name, 1, 20_000, batch_rows=1000)
    two = client.fetch_range(name, 5001, 10_000, batch_rows=250)
    pairs = list(zip(one, two, strict=True))
    assert [row for batch, _ in pairs for row in batch["seq"].to_pylist()] == list(range(1, 20_001))
    assert [row for _, batch in pairs for row in batch["seq"].to_pylist()] == list(range(5001, 10_001))


def test_overlapping_filters_are_the_servers_error(client: Client, streams: Streams) -> None:
    from headrace.client import ApiError

    name = streams.create()
    streams.fill(name, 5)
    with pytest.raises(ApiError, match="overlap"):
        read(client, name, subjects=["s.>", "s.a"])


def test_a_message_that_the_stream_counts_can_be_read(client: Client, streams: Streams) -> None:
    """Also right after it was published: who reads up to `last_seq` must not miss what is being stored."""
    name = streams.create()
    for _ in range(100):
        client.publish_many("s.a", pa.array(["x"] * 50))
        last = client.stream_info(name).last_seq
        assert sum(batch.num_rows for batch in client.fetch_range(name, 1, last)) == last
