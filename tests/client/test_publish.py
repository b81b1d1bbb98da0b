"""Publishing columns: every row becomes a message, acknowledgements count, refusals are reported."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headrace.client import Client, Publisher, PublishFailed, Report, StreamNotFound
from headrace.errors import UsageError
from tests.client.streams import Streams, header_array, read


def publish_all(publisher: Publisher, subject: str, data: pa.Array) -> Report:
    publisher.publish(subject, data)
    return publisher.flush()


@pytest.mark.parametrize("max_in_flight", [1, 3, 100, 4096])
def test_every_row_is_stored_once_in_order(client: Client, streams: Streams, max_in_flight: int) -> None:
    name = streams.create()
    publisher = client.publisher(stream=name, max_in_flight=max_in_flight)
    payloads = [f"payload {number}" for number in range(1000)]
    for start in range(0, 1000, 250):
        publisher.publish("s.a", pa.array(payloads[start : start + 250]))
    assert publisher.flush() == Report(acked=1000, duplicates=0)
    assert read(client, name)["data"].to_pylist() == [payload.encode() for payload in payloads]


def test_a_subject_per_row(client: Client, streams: Streams) -> None:
    name = streams.create()
    subjects = ["s.a", "s.b.c", "s.ä", "s.a"]
    publisher = client.publisher()
    publisher.publish(pa.array(subjects), pa.array([b"", None, b"\r\n", b"x"]))
    publisher.flush()
    table = read(client, name)
    assert table["subject"].to_pylist() == subjects
    assert table["data"].to_pylist() == [b"", b"", b"\r\n", b"x"]


def test_a_publisher_continues_after_a_flush(client: Client, streams: Streams) -> None:
    name = streams.create()
    publisher = client.publisher()
    assert publisher.flush() == Report(0, 0)
    for _ in range(3):
        publisher.publish("s.a", pa.array(["x", "y"]))
        publisher.flush()
    assert publisher.flush() == Report(6, 0)
    assert client.stream_info(name).messages == 6


def test_no_rows_are_no_messages(client: Client, streams: Streams) -> None:
    name = streams.create()
    publisher = client.publisher()
    publisher.publish("s.a", pa.array([], pa.binary()))
    publisher.publish("s.a", pa.array(["x"]))
    assert publisher.flush() == Report(1, 0)
    assert client.stream_info(name).messages == 1


def test_message_ids_make_duplicates_known(client: Client, streams: Streams) -> None:
    name = streams.create()
    publisher = client.publisher()
    publisher.publish("s.a", pa.array(["1", "2", "3"]), msg_ids=pa.array(["a", "b", "a"]))
    publisher.publish("s.a", pa.array(["4", "5"]), msg_ids=pa.array(["b", None]))
    assert publisher.flush() == Report(acked=5, duplicates=2)
    table = read(client, name)
    assert table["data"].to_pylist() == [b"1", b"2", b"5"]
    assert table["headers"].to_pylist()[0] == [{"key": "Nats-Msg-Id", "value": "a"}]


def test_an_id_of_its_own_replaces_one_that_was_copied_along(client: Client, streams: Streams) -> None:
    name = streams.create()
    headers = header_array([[("Nats-Msg-Id", "old"), ("k", "v")], [("Nats-Msg-Id", "old"), ("k", "v")]])
    publisher = client.publisher()
    publisher.publish("s.a", pa.array(["1", "2"]), headers, pa.array(["new", None]))
    assert publisher.flush() == Report(2, 0)
    assert [
        [tuple(header.values()) for header in row] for row in read(client, name)["headers"].to_pylist()
    ] == [
        [("Nats-Msg-Id", "new"), ("k", "v")],
        [("Nats-Msg-Id", "old"), ("k", "v")],
    ]


@pytest.mark.parametrize(
    "data_type",
    [pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.string_view(), pa.binary_view()],
)
def test_all_kinds_of_strings_and_bytes(client: Client, streams: Streams, data_type: pa.DataType) -> None:
    name = streams.create()
    column = pa.array(["s.zero", "s.a", "s.b", None], data_type)
    publisher = client.publisher()
    publisher.publish(column.slice(1, 2), column.slice(2, 2), msg_ids=column.slice(0, 2))
    publisher.flush()
    table = read(client, name)
    assert (table["subject"].to_pylist(), table["data"].to_pylist()) == (["s.a", "s.b"], [b"s.b", b""])


def test_slices_chunks_dictionaries_and_maps(client: Client, streams: Streams) -> None:
    name = streams.create()
    publisher = client.publisher()
    maps = pa.array([[("no", "1")], [("k", "v"), ("l", "w")], None, []], pa.map_(pa.string(), pa.string()))
    lists = header_array([[("no", "1")], [("a", "b")], None, [("c", "d"), ("e", "f")]])
    data = pa.chunked_array([["0"], ["1", "2"], [], ["3"]])
    publisher.publish("s.a", data.slice(1), maps.slice(1))
    publisher.publish(pa.array(["s.d"] * 4).dictionary_encode().slice(1), data.slice(1), lists.slice(1))
    publisher.publish("s.a", data.slice(3), pa.nulls(1))
    large = lists.cast(pa.large_list(lists.type.value_field))
    publisher.publish("s.a", data.slice(1), large.slice(1))
    publisher.flush()
    rows = read(client, name)["headers"].to_pylist()
    assert [[tuple(header.values()) for header in row] for row in rows] == [
        [("k", "v"), ("l", "w")], [], [],
        [("a", "b")], [], [("c", "d"), ("e", "f")],
        [],
        [("a", "b")], [], [("c", "d"), ("e", "f")],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("subjects", "headers", "ids", "reason"),
    [
        (["s.a", ""], None, None, "the subject is missing"),
        (["s.a", None], None, None, "the subject is missing"),
        (["s.a", "s..a"], None, None, "an empty token"),
        (["s.a", "s.a."], None, None, "an empty token"),
        (["s.a", "s.*"], None, None, "a wildcard"),
        (["s.a", "s.>"], None, None, "a wildcard"),
        (["s.a", "s. a"], None, None, "a space"),
        (["s.a", "s.a 0\r\n\r\nPUB s.b"], None, None, "a space or a control"),
        (["s.a", "s.\x00"], None, None, "a space or a control"),
        ("s.a", [[], [("", "v")]], None, "has no key"),
        ("s.a", [[], [("a:b", "v")]], None, "a colon"),
        ("s.a", [[], [("a\r\nb", "v")]], None, "a line break"),
        ("s.a", [[], [(" a", "v")]], None, "a space"),
        ("s.a", [[], [("a", "v\r\nb: c")]], None, "the value of a header has a line break"),
        ("s.a", None, ["a", "b\r\nc: d"], "the message id has a line break"),
    ],
)
def test_a_row_that_cannot_be_sent_stops_the_whole_batch(
    client: Client, streams: Streams, subjects: object, headers: object, ids: object, reason: str
) -> None:
    name = streams.create()
    publisher = client.publisher()
    with pytest.raises(UsageError, match=rf"row 1 cannot be published: .*{reason}"):
        publisher.publish(
            subjects if isinstance(subjects, str) else pa.array(subjects, pa.string()),
            pa.array(["1", "2"]),
            header_array(headers) if isinstance(headers, list) else None,
            pa.array(ids) if ids else None,
        )
    assert publisher.flush() == Report(0, 0)
    assert client.stream_info(name).messages == 0


def test_a_row_that_is_too_large_stops_the_whole_batch(client: Client, streams: Streams) -> None:
    name = streams.create()
    publisher = client.publisher()
    with pytest.raises(UsageError, match=r"row 1 .*larger than the server accepts"):
        publisher.publish("s.a", pa.array([b"x" * (1 << 20), b"x" * ((1 << 20) + 1)]))
    assert client.stream_info(name).messages == 0


def test_columns_that_do_not_fit(client: Client, streams: Streams) -> None:
    streams.create()
    publisher = client.publisher()
    with pytest.raises(UsageError, match="differ in length"):
        publisher.publish(pa.array(["s.a"]), pa.array(["1", "2"]))
    with pytest.raises(UsageError, match="int64; it must be string or binary"):
        publisher.publish("s.a", pa.array([1]))
    with pytest.raises(UsageError, match="must be an Arrow array, not list"):
        publisher.publish("s.a", ["x"])
    with pytest.raises(UsageError, match="headers has the type string"):
        publisher.publish("s.a", pa.array(["x"]), pa.array(["x"]))


def test_a_subject_without_a_stream(client: Client) -> None:
    publisher = client.publisher()
    with pytest.raises(PublishFailed, match=r"no stream stores the subject nobody\.here") as caught:
        publish_all(publisher, "nobody.here", pa.array(["x"] * 10))
    with pytest.raises(PublishFailed) as again:
        publisher.flush()
    assert again.value is caught.value


def test_a_stream_that_must_be_there(client: Client, streams: Streams) -> None:
    one = streams.create(subjects=["one"])
    two = streams.create(subjects=["two"])
    with pytest.raises(StreamNotFound):
        client.publisher(stream="THREE")
    publisher = client.publisher(stream=one)
    with pytest.raises(PublishFailed, match=f"stored in the stream {two}, not in {one}"):
        publish_all(publisher, "two", pa.array(["x"]))


def test_a_refusal_has_the_words_of_the_server(client: Client, streams: Streams) -> None:
    streams.create(max_msgs=10, discard="new")
    publisher = client.publisher()
    with pytest.raises(PublishFailed, match=r"s\.a was refused: maximum messages exceeded") as caught:
        publish_all(publisher, "s.a", pa.array(["x"] * 11))
    assert caught.value.err_code == 10077


def test_what_is_read_can_be_published_within_the_loop(client: Client, streams: Streams) -> None:
    source, target = streams.create(subjects=["in"]), streams.create(subjects=["out"])
    streams.fill(source, 5000, "in")
    publisher = client.publisher(stream=target)
    for batch in client.fetch_range(source, 1, 5000, batch_rows=300):
        publisher.publish("out", batch["data"], batch["headers"])
    assert publisher.flush() == Report(5000, 0)
    assert read(client, target)["data"].equals(read(client, source)["data"])


def test_plain_publishing_has_arrived_when_it_returns(client: Client, streams: Streams) -> None:
    name = streams.create()
    client.publish_many("s.a", pa.array([str(number) for number in range(5000)]))
    client.publish_many(pa.array(["s.b"]), pa.array([b"x"]), header_array([[("k", "v")]]))
    publisher = client.publisher()
    publisher.publish("s.a", pa.array(["last"]))
    publisher.flush()
    table = read(client, name)
    assert table["data"].to_pylist() == [str(number).encode() for number in range(5000)] + [b"x", b"last"]
    assert table["headers"].to_pylist()[5000] == [{"key": "k", "value": "v"}]


@pytest.mark.parametrize("limit", [0, -1, 1 << 21])
def test_a_limit_that_makes_no_sense(client: Client, limit: int) -> None:
    with pytest.raises(UsageError, match="in flight"):
        client.publisher(max_in_flight=limit)


def test_the_example_of_the_documentation(
    client: Client, streams: Streams, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    streams.create("ORDERS", ["orders.>"])
    page = Path(__file__).parents[2] / "docs" / "client.md"
    example = page.read_text().partition("```python\n")[2].partition("```")[0]
    assert "nats://127.0.0.1:4222" in example
    exec(example.replace("nats://127.0.0.1:4222", url), {})
    assert capsys.readouterr().out.splitlines() == [
        "Report(acked=2, duplicates=0)",
        "2 ['subject', 'data', 'headers', 'stream', 'seq', 'timestamp']",
    ]
