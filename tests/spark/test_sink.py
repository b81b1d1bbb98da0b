"""`format("nats")` as a sink: rows become messages, each of them once."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from pyspark.sql.types import StructType

from headrace.client import Client
from headrace.spark.options import write_options
from headrace.spark.start import start_query
from headrace.spark.writing import duplicate_window, sink
from headrace.spark.writing.sink import StreamWriter
from tests.spark.conftest import Nats
from tests.spark.test_batch_read import reason

pytestmark = pytest.mark.timeout(180)

SECOND = 1_000_000_000


def write(on: Nats, rows: Any, **options: str) -> None:
    rows.write.format("nats").mode("append").options(servers=on.broker.url, **options).save()


def copy(on: Nats, rows: Any, checkpoint: str = "copy", **options: str) -> None:
    """Run a streaming query into the sink to the end of what is there."""
    writer = rows.writeStream.format("nats").options(servers=on.broker.url, **options)
    writer = writer.option("checkpointLocation", str(on.directory / checkpoint))
    start_query(writer.trigger(availableNow=True)).awaitTermination()


def test_rows_become_messages(on: Nats) -> None:
    stream = on.broker.make_stream()
    rows = on.spark.sql(
        f"SELECT concat('{stream}.', id) AS subject, string(id) AS data, "
        "map('Number', string(id)) AS headers FROM range(0, 3, 1, 1)"
    )
    write(on, rows)
    found = on.broker.messages(stream)
    assert [(message.subject, message.data) for message in found] == [
        (f"{stream}.{number}", str(number).encode()) for number in range(3)
    ]
    assert [message.headers["Number"] for message in found] == ["0", "1", "2"]


def test_one_subject_for_all_comes_from_the_option(on: Nats) -> None:
    stream = on.broker.make_stream()
    write(on, on.spark.sql("SELECT string(id) AS data FROM range(5)"), subject=f"{stream}.all")
    found = on.broker.messages(stream)
    assert {message.subject for message in found} == {f"{stream}.all"}
    assert sorted(message.data for message in found) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_message_id_of_the_users_own_makes_writes_idempotent(on: Nats) -> None:
    stream = on.broker.make_stream()
    rows = on.spark.sql(
        f"SELECT '{stream}.a' AS subject, string(id) AS data, string(id) AS msgId FROM range(4)"
    )
    write(on, rows)
    write(on, rows)
    found = on.broker.messages(stream)
    assert sorted(message.headers["Nats-Msg-Id"] for message in found) == ["0", "1", "2", "3"]


def test_two_batch_writes_are_two_writes(on: Nats) -> None:
    stream = on.broker.make_stream()
    rows = on.spark.sql(f"SELECT '{stream}.a' AS subject, 'x' AS data FROM range(4)")
    write(on, rows)
    write(on, rows)
    found = on.broker.messages(stream)
    assert len({message.headers["Nats-Msg-Id"] for message in found}) == len(found) == 8


def test_without_acknowledgements_plain_subjects_work(on: Nats) -> None:
    stream = on.broker.make_stream()
    rows = on.spark.sql("SELECT string(id) AS data FROM range(100)")
    write(on, rows, subject="nobody.listens", acks="none")
    write(on, rows, subject=f"{stream}.a", acks="none")
    deadline = time.monotonic() + 30  # the server has them, and nats-server's stream soon
    while on.broker.state(stream).messages != 100:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_stream_is_copied_with_ids_of_query_batch_partition_stream_and_sequence(on: Nats) -> None:
    """Where the names of query and batch come from is not documented by Spark: this is what notices."""
    source, target = on.broker.make_stream(), on.broker.make_stream()
    for letter in "abcdef":
        on.broker.publish(
            f"{source}.a", [letter], {"Kind": "letter", "Nats-Msg-Id": f"{letter} of the source"}
        )
    rows = on.read_stream(source, startingOffsets="earliest", maxOffsetsPerTrigger=4, minPartitions=2)
    copy(on, rows, subject=f"{target}.copy")
    found = on.broker.messages(target)
    assert sorted(message.data for message in found) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert {message.headers["Kind"] for message in found} == {"letter"}
    ids = sorted(message.headers["Nats-Msg-Id"].split(":") for message in found)
    assert len({parts[0] for parts in ids}) == 1
    assert re.fullmatch(r"[0-9a-f-]{36}", ids[0][0]), "the id of the query, as in the checkpoint"
    assert [parts[1:] for parts in ids] == [
        ["0", "0", source, "1"],
        ["0", "0", source, "2"],
        ["0", "1", source, "3"],
        ["0", "1", source, "4"],
        ["1", "0", source, "5"],
        ["1", "1", source, "6"],
    ]


def test_a_row_is_not_lost_when_a_message_was_deleted_before_its_batch_is_repeated(on: Nats) -> None:
    """Half of the batch is stored, nothing is recorded, and the rows shift by one."""
    source, target = on.broker.make_stream(), on.broker.make_stream(max_msgs=4, discard="new")
    on.broker.publish(f"{source}.a", list("abcdefgh"))
    rows = on.read_stream(source, startingOffsets="earliest")
    assert "maximum messages exceeded" in reason(lambda: copy(on, rows, subject=f"{target}.copy"))
    on.broker.delete_message(source, 2)
    on.broker.change_stream(target, max_msgs=-1)
    copy(on, rows, subject=f"{target}.copy")
    assert "".join(sorted(message.data.decode() for message in on.broker.messages(target))) == "abcdefgh"


def test_all_rows_that_are_made_of_one_message_are_written(on: Nats) -> None:
    source, target = on.broker.make_stream(), on.broker.make_stream()
    on.broker.publish(f"{source}.a", ["a b c", "d"])
    rows = on.read_stream(source, startingOffsets="earliest")
    words = rows.selectExpr("stream", "seq", "explode(split(string(data), ' ')) AS data")
    copy(on, words.union(words), subject=f"{target}.copy")
    assert "".join(sorted(message.data.decode() for message in on.broker.messages(target))) == "aabbccdd"


def test_two_queries_that_write_the_same_messages_to_one_stream_do_not_drop_them(on: Nats) -> None:
    source, target = on.broker.make_stream(), on.broker.make_stream()
    on.broker.publish(f"{source}.a", list("ab"))
    for name in "one", "other":
        rows = on.read_stream(source, startingOffsets="earliest")
        copy(on, rows, checkpoint=name, subject=f"{target}.{name}")
    assert on.broker.state(target).messages == 4


def test_a_batch_that_an_older_version_has_written_in_part_is_completed_with_its_ids(on: Nats) -> None:
    source, target = on.broker.make_stream(), on.broker.make_stream(max_msgs=1, discard="new")
    on.broker.publish(f"{source}.a", list("abcd"))
    on.broker.publish(f"{target}.full", ["x"])
    rows = on.read_stream(source, startingOffsets="earliest")
    assert "maximum messages exceeded" in reason(lambda: copy(on, rows, subject=f"{target}.copy"))
    # As the older version would have left it: its offsets, and two messages under its ids.
    checkpoint = on.directory / "copy"
    *lines, offset = (checkpoint / "offsets" / "0").read_text().splitlines()
    old = json.loads(offset)["streams"]
    del old[source]["gaps"]
    (checkpoint / "offsets" / ".0.crc").unlink()
    (checkpoint / "offsets" / "0").write_text("\n".join([*lines, json.dumps(old)]))
    query = json.loads((checkpoint / "metadata").read_text())["id"]
    on.broker.change_stream(target, max_msgs=-1)
    for row, letter in enumerate("ab"):
        on.broker.publish(f"{target}.copy", [letter], {"Nats-Msg-Id": f"{query}:0:0:{row}"})
    copy(on, rows, subject=f"{target}.copy")
    on.broker.publish(f"{source}.a", ["e"])
    copy(on, rows, subject=f"{target}.copy")
    assert [message.data.decode() for message in on.broker.messages(target)] == list("xabcde")


def test_rows_without_an_identity_are_written_with_one_warning(
    on: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []  # on stderr those of earlier queries may still arrive
    monkeypatch.setattr(sink, "warn", warnings.append)
    schema = StructType().add("data", "string")
    options = write_options({"servers": on.broker.url, "subject": "a"})
    for batch in range(3):  # Spark makes a writer for each
        StreamWriter(options, schema).commit([], batch)
    assert warnings == [sink.BY_PLACE]
    identified = schema.add("stream", "string").add("seq", "long")
    StreamWriter(options, identified).commit([], 0)
    assert warnings == [sink.BY_PLACE]


def test_a_batch_that_is_repeated_after_a_crash_adds_nothing(on: Nats) -> None:
    """The query, the batch and the rows have the same names after a restart, so the stream knows them."""
    source, target = on.broker.make_stream(), on.broker.make_stream()
    on.broker.publish(f"{source}.a", list("abcd"))
    copy(on, on.read_stream(source, startingOffsets="earliest"), subject=f"{target}.copy")
    # As if Spark had been killed after the batch was published and before it was recorded.
    (on.directory / "copy" / "commits" / "0").unlink()
    (on.directory / "copy" / "commits" / ".0.crc").unlink()
    on.broker.publish(f"{source}.a", list("ef"))
    copy(on, on.read_stream(source, startingOffsets="earliest", minPartitions=4), subject=f"{target}.copy")
    assert sorted(message.data for message in on.broker.messages(target)) == [
        b"a",
        b"b",
        b"c",
        b"d",
        b"e",
        b"f",
    ]


# What can be wrong


def test_a_subject_that_no_stream_keeps_is_reported(on: Nats) -> None:
    rows = on.spark.sql("SELECT 'x' AS data")
    told = reason(lambda: write(on, rows, subject="no.stream.here"))
    assert "no.stream.here" in told or "no stream" in told.lower()


def test_a_stream_that_refuses_is_reported(on: Nats) -> None:
    stream = on.broker.make_stream(max_msgs=2, discard="new")
    told = reason(lambda: write(on, on.spark.sql("SELECT 'x' AS data FROM range(5)"), subject=f"{stream}.a"))
    assert "maximum messages exceeded" in told


def test_subjects_that_the_wanted_stream_does_not_take_are_told_before_anything_is_written(on: Nats) -> None:
    wanted, other = on.broker.make_stream(), on.broker.make_stream()
    rows = on.spark.sql(
        f"SELECT 'x' AS data, s.subject FROM VALUES ('{wanted}.a'), ('{other}.a') AS s(subject)"
    )
    told = reason(lambda: write(on, rows.coalesce(1), stream=wanted))
    assert told == f"the stream {wanted} does not accept the subject {other}.a; it accepts {wanted}.>"
    assert (on.broker.state(wanted).messages, on.broker.state(other).messages) == (0, 0)


def test_to_overwrite_is_refused(on: Nats) -> None:
    writer = on.spark.sql("SELECT 'x' AS data").write.format("nats").mode("overwrite")
    told = reason(lambda: writer.options(servers=on.broker.url, subject="a").save())
    assert "messages cannot be overwritten, only added" in told


def test_a_column_that_is_not_known_is_reported_and_nothing_is_written(on: Nats) -> None:
    stream = on.broker.make_stream()
    rows = on.spark.sql("SELECT 'x' AS data, 1 AS amount")
    assert "cannot use the column `amount`" in reason(lambda: write(on, rows, subject=f"{stream}.a"))
    assert on.broker.state(stream).messages == 0


@pytest.mark.parametrize(("seconds", "warned"), [(1, True), (120, True), (3600, False)])
def test_a_duplicate_window_shorter_than_a_restart_is_reported(
    on: Nats, capfd: pytest.CaptureFixture[str], seconds: int, warned: bool
) -> None:
    stream = on.broker.make_stream(duplicate_window=seconds)
    with Client.connect(on.broker.url) as client:
        for _ in range(2):
            duplicate_window.warn_if_short(client, f"{stream}.a")
    told = f"the stream {stream} recognises duplicates for {seconds} s"
    assert capfd.readouterr().err.count(told) == (1 if warned else 0)


def test_after_the_window_a_repeated_batch_is_there_twice(on: Nats) -> None:
    """What the warning is about. The day this fails, the warning can go."""
    stream = on.broker.make_stream(duplicate_window=0.5)
    rows = on.spark.sql(f"SELECT '{stream}.a' AS subject, 'x' AS data, 'same' AS msgId")
    write(on, rows)
    time.sleep(1.5)
    write(on, rows)
    assert on.broker.state(stream).messages == 2
