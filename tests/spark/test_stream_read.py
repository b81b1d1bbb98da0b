"""`spark.readStream.format("nats")`: every message in one batch, in batches of the wanted size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from headrace.spark.failure import DataLossError, DataSourceError
from headrace.spark.options import Use, read_options
from headrace.spark.reading.stream_reader import StreamReader
from tests.spark.conftest import Broker, Nats

pytestmark = pytest.mark.timeout(180)


def letters(batches: list[list[Any]]) -> list[str]:
    """The payloads of each batch, in the order of their sequence."""
    return [
        "".join(bytes(row.data).decode() for row in sorted(rows, key=lambda row: row.seq)) for rows in batches
    ]


Ask = Callable[..., StreamReader]


@pytest.fixture
def ask(broker: Broker) -> Iterator[Ask]:
    """Makes readers without Spark, to ask them what Spark asks; they are stopped at the end."""
    made: list[StreamReader] = []

    def make(stream: str, **options: object) -> StreamReader:
        given = {name: str(value) for name, value in options.items()}
        made.append(StreamReader(read_options({"servers": broker.url, "stream": stream} | given, Use.STREAM)))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


def rows_of(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> str:
    """What the partitions between two offsets hold."""
    batches = [batch for partition in reader.partitions(start, end) for batch in reader.read(partition)]
    return "".join(bytes(value.as_py()).decode() for batch in batches for value in batch.column("data"))


def run(reader: StreamReader, start: dict[str, Any] | None = None) -> tuple[list[str], dict[str, Any]]:
    """As an AvailableNow query: what each batch reads that reads something, and the offset at the end."""
    offset = reader.initialOffset() if start is None else start
    reader.prepareForTriggerAvailableNow()
    batches = []
    while (following := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        batches.append(rows_of(reader, offset, following))
        offset = following
    return [batch for batch in batches if batch], offset


# Through Spark


def test_what_is_there_is_read_once_and_what_comes_later_next_time(on: Nats) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abc"))
    rows = on.read_stream(stream, startingOffsets="earliest")
    assert letters(on.drain(rows)) == ["abc"]
    on.broker.publish(f"{stream}.a", list("de"))
    assert letters(on.drain(rows)) == ["de"]


def test_available_now_keeps_to_the_limit_and_ends(on: Nats) -> None:
    """Without SupportsTriggerAvailableNow, Spark would read everything in one batch."""
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("abcdefg"))
    rows = on.read_stream(stream, startingOffsets="earliest", maxOffsetsPerTrigger=3)
    assert letters(on.drain(rows)) == ["abc", "def", "g"]


def test_latest_is_not_resolved_again_when_spark_repeats_the_first_batch(on: Nats) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("old"))
    rows = on.read_stream(stream, startingOffsets="latest")
    assert letters(on.drain(rows)) == []
    on.broker.publish(f"{stream}.a", list("abc"))
    assert letters(on.drain(rows)) == ["abc"]
    # As if Spark had been killed before it recorded its batches: both are repeated.
    for record in (on.directory / "checkpoint" / "commits").iterdir():
        record.unlink()
    (on.directory / "checkpoint" / "offsets" / "1").unlink()
    (on.directory / "checkpoint" / "offsets" / ".1.crc").unlink()
    on.broker.publish(f"{stream}.a", list("de"))
    assert "".join(letters(on.drain(rows))) == "abcde"


# What Spark asks a reader


def test_available_now_ends_where_the_stream_ended_when_it_began(broker: Broker, ask: Ask) -> None:
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", list("ab"))
    reader = ask(stream, startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    broker.publish(f"{stream}.a", list("cd"))
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert rows_of(reader, reader.initialOffset(), end) == "ab"
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_limits_are_kept_unless_spark_wants_all(broker: Broker, ask: Ask) -> None:
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", [letter * 1000 for letter in "abcdef"])
    batches, _ = run(ask(stream, startingOffsets="earliest", maxBytesPerTrigger=2500))
    assert [len(batch) for batch in batches] == [2000, 2000, 2000]
    batches, _ = run(ask(stream, startingOffsets="earliest", maxBytesPerTrigger=2500, maxOffsetsPerTrigger=1))
    assert [len(batch) for batch in batches] == [1000] * 6
    reader = ask(stream, startingOffsets="earliest", maxOffsetsPerTrigger=1)
    assert len(rows_of(reader, {}, reader.latestOffset({}, ReadAllAvailable()))) == 6000


def test_the_first_batch_is_the_same_when_it_is_repeated(broker: Broker, ask: Ask) -> None:
    """`latest` is resolved once: a live answer in the repetition would lose what came in between."""
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", list("old"))
    first = ask(stream, startingOffsets="latest")
    start = first.initialOffset()
    begin = first.latestOffset(start, ReadAllAvailable())
    assert rows_of(first, start, begin) == "", "an empty batch, which puts the base into the checkpoint"
    broker.publish(f"{stream}.a", list("new"))
    time.sleep(0.2)
    end = first.latestOffset(begin, ReadAllAvailable())
    assert rows_of(first, begin, end) == "new"
    # After a crash another process asks for the first offset again, and for the same two batches.
    broker.publish(f"{stream}.a", list("newer"))
    second = ask(stream, startingOffsets="latest")
    assert second.initialOffset() == start
    assert rows_of(second, second.initialOffset(), begin) == ""
    assert rows_of(second, begin, end) == "new"
    assert rows_of(second, second.initialOffset(), end) == "new"


def test_nothing_depends_on_commit(broker: Broker, ask: Ask) -> None:
    """Spark commits a batch when the next one starts, and the last one of AvailableNow never."""
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", list("abcd"))
    seen: dict[bool, list[tuple[dict[str, Any], str]]] = {True: [], False: []}
    for commits, batches in seen.items():
        reader = ask(stream, startingOffsets="earliest")
        offset = reader.initialOffset()
        for _ in range(3):
            following = reader.latestOffset(offset, ReadMaxRows(2))
            batches.append((following, rows_of(reader, offset, following)))
            if commits:
                reader.commit(following)
            offset = following
    assert seen[True] == seen[False]
    assert [text for _, text in seen[True]] == ["ab", "cd", ""]


def test_a_repeated_batch_has_the_same_partitions_whatever_the_options_are_now(
    broker: Broker, ask: Ask
) -> None:
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", list("abcdef"))
    before = ask(stream, startingOffsets="earliest", minPartitions=3)
    end = before.latestOffset({}, ReadAllAvailable())
    after = ask(stream, startingOffsets="latest", minPartitions=2)
    assert after.partitions({}, end) == before.partitions({}, end)
    assert len(before.partitions({}, end)) == 3


def test_several_streams_and_a_filter(broker: Broker, ask: Ask) -> None:
    one, other = broker.make_stream(), broker.make_stream()
    broker.publish(f"{one}.yes", list("ab"))
    broker.publish(f"{one}.no", list("xyz"))
    broker.publish(f"{other}.yes", list("cd"))
    subject = f"{one}.yes,{other}.yes"
    reader = ask(f"{one},{other}", startingOffsets="earliest", subject=subject, maxOffsetsPerTrigger=4)
    assert sorted("".join(run(reader)[0])) == ["a", "b", "c", "d"]


def test_a_stream_that_is_added_later_is_read_from_its_start(broker: Broker, ask: Ask) -> None:
    one, other = broker.make_stream(), broker.make_stream()
    broker.publish(f"{one}.a", list("ab"))
    broker.publish(f"{other}.a", list("cd"))
    batches, end = run(ask(one, startingOffsets="earliest"))
    assert batches == ["ab"]
    batches, end = run(ask(other, startingOffsets="earliest"), end)
    assert batches == ["cd"]
    broker.publish(f"{one}.a", list("e"))
    batches, end = run(ask(f"{one},{other}", startingOffsets="earliest"), end)
    assert batches == ["e"], "what was read of the first before it was left out is not read again"


def test_an_idle_query_asks_the_server_ten_times_a_second_at_most(broker: Broker, ask: Ask) -> None:
    stream = broker.make_stream()
    reader = ask(stream)
    start = reader.latestOffset({}, ReadAllAvailable())
    asked: list[str] = []
    extent = reader.streams.extent
    reader.streams.extent = lambda name: asked.append(name) or extent(name)  # type: ignore
    began = time.monotonic()
    for _ in range(1000):
        reader.latestOffset(start, ReadAllAvailable())
    assert len(asked) <= (time.monotonic() - began) / 0.1 + 1


# Data loss


def purged(broker: Broker, ask: Ask) -> tuple[str, dict[str, Any]]:
    """A stream that was read up to `b`, then lost `c` and `d`, and holds `e`; and the offset."""
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", list("ab"))
    _, end = run(ask(stream, startingOffsets="earliest"))
    broker.publish(f"{stream}.a", list("cde"))
    broker.purge(stream, seq=5)
    return stream, end


def test_messages_that_were_removed_unread_fail_the_query(broker: Broker, ask: Ask) -> None:
    stream, end = purged(broker, ask)
    with pytest.raises(DataLossError) as raised:
        run(ask(stream), end)
    told = str(raised.value)
    assert told.startswith(f"messages 3 to 4 of the stream {stream} were removed before being read; ")
    assert "failOnDataLoss" in told


def test_messages_that_were_removed_unread_may_be_skipped(broker: Broker, ask: Ask) -> None:
    stream, end = purged(broker, ask)
    batches, end = run(ask(stream, failOnDataLoss=False), end)
    assert batches == ["e"]
    broker.publish(f"{stream}.a", ["f"])
    assert run(ask(stream, failOnDataLoss=False), end)[0] == ["f"]


def test_messages_that_are_removed_between_planning_and_reading_fail_the_read(
    broker: Broker, ask: Ask
) -> None:
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", list("abcd"))
    reader = ask(stream, startingOffsets="earliest")
    partitions = reader.partitions({}, reader.latestOffset({}, ReadAllAvailable()))
    broker.purge(stream, seq=3)
    with pytest.raises(DataLossError, match="removed"):
        list(reader.read(partitions[0]))
    forgiving = ask(stream, failOnDataLoss=False)
    assert [value.as_py() for batch in forgiving.read(partitions[0]) for value in batch["data"]] == [
        b"c",
        b"d",
    ]


def test_a_stream_that_was_re_created_fails_the_query_or_is_read_from_its_start(
    broker: Broker, ask: Ask
) -> None:
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", list("abcd"))
    _, end = run(ask(stream, startingOffsets="earliest"))
    broker.delete_stream(stream)
    broker.make_stream(name=stream)
    broker.publish(f"{stream}.a", list("xy"))
    with pytest.raises(DataLossError, match=f"the stream {stream} was deleted and re-created"):
        run(ask(stream), end)
    assert run(ask(stream, failOnDataLoss=False), end)[0] == ["xy"]


@pytest.mark.parametrize("letters", ["vw", "vwxyz"])
def test_a_stream_that_was_re_created_is_read_from_its_start_however_long_it_is(
    broker: Broker, ask: Ask, capsys: pytest.CaptureFixture[str], letters: str
) -> None:
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", list("ab"))
    _, end = run(ask(stream, startingOffsets="earliest"))
    broker.delete_stream(stream)
    broker.make_stream(name=stream)
    broker.publish(f"{stream}.a", list(letters))
    assert run(ask(stream, failOnDataLoss=False), end)[0] == [letters]
    told = f"headrace: warning: the stream {stream} was deleted and re-created: it is read from its beginning"
    assert capsys.readouterr().err.count(told) == 1


def test_a_query_continues_from_an_offset_of_the_first_version(broker: Broker, ask: Ask) -> None:
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", list("abcd"))
    reader = ask(stream, startingOffsets="earliest")
    old = dict(reader.latestOffset({}, ReadMaxRows(2))["streams"])
    del old[stream]["gaps"]
    assert rows_of(reader, {}, old) == "ab"
    assert run(reader, old)[0] == ["cd"]


def test_a_lost_stream_does_not_move_the_partitions_of_the_others(broker: Broker, ask: Ask) -> None:
    """The sink makes ids of partition numbers: moved ones would be written twice."""
    first, other = sorted([broker.make_stream(), broker.make_stream()])
    for stream in first, other:
        broker.publish(f"{stream}.a", list("abcd"))
    reader = ask(f"{first},{other}", startingOffsets="earliest", minPartitions=4, failOnDataLoss=False)
    end = reader.latestOffset({}, ReadAllAvailable())
    before = reader.partitions({}, end)
    broker.delete_stream(first)
    broker.make_stream(name=first)
    after = reader.partitions({}, end)
    assert after[2:] == before[2:]
    assert [list(reader.read(partition)) for partition in after[:2]] == [[], []]


# Gaps


def gaps_in(offset: dict[str, Any], stream: str) -> int:
    return int(offset["streams"][stream]["gaps"])


def test_messages_that_were_removed_from_the_middle_are_counted(
    broker: Broker, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = broker.make_stream()
    for letter in "abcd":
        broker.publish(f"{stream}.yes", [letter])
        broker.publish(f"{stream}.no", ["x"])
    reader = ask(stream, startingOffsets="earliest")
    begin = reader.latestOffset({}, ReadMaxRows(2))
    assert gaps_in(begin, stream) == 0
    broker.purge(stream, subject=f"{stream}.no")
    time.sleep(0.2)  # longer than an answer is kept
    middle = reader.latestOffset(begin, ReadMaxRows(2))
    end = reader.latestOffset(middle, ReadAllAvailable())
    assert (gaps_in(middle, stream), gaps_in(end, stream)) == (1, 3)
    told = f"2 of the messages 5 to 8 of the stream {stream} were removed before they could be read"
    assert told in capsys.readouterr().err
    assert rows_of(reader, begin, middle) + rows_of(reader, middle, end) == "bcd"


def test_messages_that_were_removed_from_the_start_are_counted(broker: Broker, ask: Ask) -> None:
    stream, end = purged(broker, ask)
    reader = ask(stream, failOnDataLoss=False)
    assert gaps_in(reader.latestOffset(end, ReadAllAvailable()), stream) == 2


def test_a_stream_with_a_limit_per_subject_has_no_gaps_to_report(broker: Broker, ask: Ask) -> None:
    stream = broker.make_stream(max_msgs_per_subject=1)
    broker.publish(f"{stream}.a", list("a"))
    broker.publish(f"{stream}.b", list("bcd"))
    reader = ask(stream, startingOffsets="earliest")
    assert gaps_in(reader.latestOffset({}, ReadAllAvailable()), stream) == 0


def test_a_batch_that_is_repeated_continues_without_a_stream_that_may_be_lost(
    broker: Broker, ask: Ask
) -> None:
    """The checkpoint asks for messages 1 to 4, but the re-created stream has only two."""
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", list("abcd"))
    end = ask(stream, startingOffsets="earliest").latestOffset({}, ReadAllAvailable())
    broker.delete_stream(stream)
    broker.make_stream(name=stream)
    broker.publish(f"{stream}.a", list("xy"))
    with pytest.raises(DataLossError, match="re-created"):
        rows_of(ask(stream), {}, end)
    forgiving = ask(stream, failOnDataLoss=False)
    assert rows_of(forgiving, {}, end) == ""
    assert run(forgiving, end)[0] == ["xy"]


def test_a_stream_that_was_re_created_is_recognised_when_it_is_longer_than_before(
    broker: Broker, ask: Ask
) -> None:
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", list("ab"))
    reader = ask(stream, startingOffsets="earliest")
    end = reader.latestOffset({}, ReadAllAvailable())
    broker.delete_stream(stream)
    broker.make_stream(name=stream)
    broker.publish(f"{stream}.a", list("vwxyz"))
    time.sleep(0.2)
    with pytest.raises(DataLossError, match="re-created"):
        reader.latestOffset(end, ReadAllAvailable())
    with pytest.raises(DataLossError, match="re-created"):
        reader.partitions({}, end)


def test_a_checkpoint_of_another_source_is_reported(broker: Broker, ask: Ask) -> None:
    with pytest.raises(DataSourceError, match="not one of this source"):
        ask(broker.make_stream()).latestOffset({"topic": {"0": 1}}, ReadAllAvailable())
