"""`spark.read.format("nats")`: streams as tables, against real servers."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.spark.failure import reason_of
from headrace.spark.options import Use, read_options
from headrace.spark.reading.batch_reader import BatchReader
from tests.spark.conftest import ONE_SERVER, Broker, Nats

pytestmark = pytest.mark.timeout(180)


def texts(rows: Any, column: str = "data") -> list[str]:
    return [bytes(row[column]).decode() for row in rows.orderBy("stream", "seq").collect()]


def test_a_message_is_a_row_with_all_its_columns(on: Nats) -> None:
    stream = on.broker.make_stream()
    before = datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=1)
    on.broker.publish(f"{stream}.eu", ["first"], {"Kind": "new"})
    on.broker.publish(f"{stream}.us", ["second"])
    rows = on.read(stream).orderBy("seq").collect()
    assert [tuple(row)[:5] for row in rows] == [
        (f"{stream}.eu", bytearray(b"first"), [("Kind", "new")], stream, 1),
        (f"{stream}.us", bytearray(b"second"), [], stream, 2),
    ]
    after = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=1)
    assert all(before <= row.timestamp <= after for row in rows)


def test_the_schema_is_the_promised_one(on: Nats) -> None:
    stream = on.broker.make_stream()
    assert on.read(stream).schema.simpleString() == (
        "struct<subject:string,data:binary,headers:array<struct<key:string,value:string>>,"
        "stream:string,seq:bigint,timestamp:timestamp>"
    )
    assert on.read(stream, includeHeaders=False).columns == ["subject", "data", "stream", "seq", "timestamp"]


def test_batches_have_exactly_the_schema_that_spark_expects() -> None:
    """Spark compares the first batch with its own schema, down to the name of a list's child."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        LongType,
        StringType,
        StructType,
        TimestampType,
    )

    from headrace.client import SCHEMA

    pair = StructType().add("key", StringType()).add("value", StringType())
    schema = (
        StructType()
        .add("subject", StringType())
        .add("data", BinaryType())
        .add("headers", ArrayType(pair))
        .add("stream", StringType())
        .add("seq", LongType())
        .add("timestamp", TimestampType())
    )
    assert to_arrow_schema(schema, timezone="UTC").equals(SCHEMA)


def test_an_empty_stream_is_an_empty_table(on: Nats) -> None:
    stream = on.broker.make_stream()
    assert on.read(stream).count() == 0


def test_without_headers_the_rest_is_there(on: Nats) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", ["x"], {"A": "1"})
    assert on.read(stream, includeHeaders=False).collect()[0].data == b"x"


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("earliest", "latest", "0123456789"),
        ('{"STREAM": 4}', "latest", "3456789"),
        ('{"STREAM": 4}', '{"STREAM": 6}', "34"),
        ("earliest", '{"STREAM": 3}', "01"),
        ("latest", "latest", ""),
        ('{"STREAM": 11}', "latest", ""),
    ],
)
def test_offsets_say_where_to_start_and_end(broker: Broker, start: str, end: str, expected: str) -> None:
    """Without Spark, to ask what it asks: a job for each of these would take longer than all else here."""
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", list("0123456789"))
    offsets = {"startingOffsets": start, "endingOffsets": end}
    options = {name: text.replace("STREAM", stream) for name, text in offsets.items()}
    reader = BatchReader(read_options({"servers": broker.url, "stream": stream} | options, Use.BATCH))
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert b"".join(value.as_py() for batch in batches for value in batch["data"]).decode() == expected


def test_times_say_where_to_start_and_end(on: Nats) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("0123"))
    moments = [row.timestamp.replace(tzinfo=UTC) for row in on.read(stream).orderBy("seq").collect()]
    later = (moments[-1] + timedelta(seconds=5)).isoformat()
    # A time of the table is that of the message without its nanoseconds, so it lies before it.
    since, until = moments[1].isoformat(), moments[3].isoformat()
    assert texts(on.read(stream, startingTimestamp=since)) == ["1", "2", "3"]
    assert texts(on.read(stream, startingTimestamp=since, endingTimestamp=until)) == ["1", "2"]
    assert texts(on.read(stream, startingTimestamp=later)) == []
    assert texts(on.read(stream, endingTimestamp=later)) == ["0", "1", "2", "3"]


def test_deleted_messages_are_simply_not_there(on: Nats) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("01234"))
    for seq in 2, 3, 5:
        on.broker.delete_message(stream, seq)
    assert texts(on.read(stream)) == ["0", "3"]


def test_only_matching_subjects_are_read(on: Nats) -> None:
    stream = on.broker.make_stream()
    for subject in "eu.a", "us.a", "eu.b", "asia.a":
        on.broker.publish(f"{stream}.{subject}", [subject])
    assert texts(on.read(stream, subject=f"{stream}.eu.*")) == ["eu.a", "eu.b"]
    assert texts(on.read(stream, subject=f"{stream}.us.a,{stream}.asia.>")) == ["us.a", "asia.a"]


def test_several_streams_are_one_table(on: Nats) -> None:
    one, other = on.broker.make_stream(), on.broker.make_stream()
    on.broker.publish(f"{one}.a", ["1", "2"])
    on.broker.publish(f"{other}.a", ["3"])
    rows = on.read(f"{one},{other}").orderBy("stream", "seq").collect()
    assert [(row.stream, row.seq) for row in rows] == [(one, 1), (one, 2), (other, 1)]


def test_partitions_are_as_many_as_asked_for(on: Nats) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("0123456789"))
    rows = on.read(stream, minPartitions=3)
    assert rows.rdd.getNumPartitions() == 3
    assert "".join(texts(rows)) == "0123456789"


def test_sql_finds_the_source_without_registration(on: Nats) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", ["7", "8"])
    on.spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW numbers USING nats "
        f"OPTIONS (servers '{on.broker.url}', stream '{stream}')"
    )
    assert on.spark.sql("SELECT sum(int(string(data))) FROM numbers").collect()[0][0] == 15


def test_odd_messages_come_as_they_are(on: Nats) -> None:
    stream = on.broker.make_stream()
    payloads = [b"", bytes(range(256)), b"x" * 1_000_000]

    async def publish(connection: Any) -> None:
        for payload in payloads:
            await connection.jetstream(timeout=30).publish(
                f"{stream}.\u00fc.\u65e5", payload, headers={"A": "\u00e9"}
            )

    on.broker.do(publish)
    rows = on.read(stream, minPartitions=50).orderBy("seq").collect()
    assert [bytes(row.data) for row in rows] == payloads
    assert {row.subject for row in rows} == {f"{stream}.\u00fc.\u65e5"}
    assert {tuple(map(tuple, row.headers)) for row in rows} == {(("A", "\u00e9"),)}


# What can be wrong


def reason(action: Any) -> str:
    with pytest.raises(Exception) as raised:  # noqa: PT011, Spark wraps what we raise in several kinds
        action()
    return reason_of(raised.value)


def test_an_unknown_stream_is_reported(on: Nats) -> None:
    with pytest.raises(Exception, match="NOWHERE") as raised:
        on.read("NOWHERE").count()
    assert "there is no such stream; check its name" in str(raised.value).splitlines()[0]
    assert "Traceback" not in str(raised.value)
    assert reason_of(raised.value).startswith("stream NOWHERE: there is no such stream; check its name")


@ONE_SERVER
def test_an_unknown_option_is_reported(on: Nats) -> None:
    told = reason(lambda: on.read("S", startingOffset="earliest"))
    assert told == "unknown option `startingoffset`; did you mean `startingOffsets`?"


@ONE_SERVER
def test_malformed_offsets_are_told(on: Nats) -> None:
    assert "must be earliest, latest, or JSON such as" in reason(lambda: on.read("S", startingOffsets="{"))


def test_a_start_beyond_the_end_is_reported(on: Nats) -> None:
    stream = on.broker.make_stream()
    offsets = json.dumps({stream: 5})
    told = reason(lambda: on.read(stream, startingOffsets=offsets).count())
    assert told.startswith(
        f"the stream {stream} ends at 0, but reading is to start at 5; the highest start is 1"
    )


def test_an_end_beyond_the_end_is_reported_unless_messages_may_be_missing(on: Nats) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("01"))
    offsets = json.dumps({stream: 5})
    told = reason(lambda: on.read(stream, endingOffsets=offsets).count())
    assert told.startswith(f"the stream {stream} ends at 2, but reading is to end before 5; the highest end")
    assert texts(on.read(stream, endingOffsets=offsets, failOnDataLoss=False)) == ["0", "1"]


@ONE_SERVER
def test_an_unreachable_server_is_reported(on: Nats) -> None:
    rows = on.spark.read.format("nats").options(servers="nats://127.0.0.1:1", stream="S").load()
    assert "127.0.0.1:1" in reason(rows.count)


def test_removed_messages_are_told_unless_they_may_be_missing(on: Nats) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", list("0123"))
    on.broker.purge(stream, seq=3)
    offsets = json.dumps({stream: 1})
    told = reason(lambda: on.read(stream, startingOffsets=offsets).count())
    assert told.startswith(
        f"messages 1 to 2 of the stream {stream} were removed before being read; set failOn"
    )
    assert texts(on.read(stream, startingOffsets=offsets, failOnDataLoss=False)) == ["2", "3"]


@ONE_SERVER
def test_a_schema_of_the_users_own_is_reported(on: Nats) -> None:
    reader = on.spark.read.format("nats").options(servers=on.broker.url, stream="S")
    types = "subject string, data string, stream string, seq bigint, timestamp timestamp"
    for schema in "a int", types:
        rows = reader.option("includeHeaders", "false").schema(schema).load()
        assert "a message has the columns subject string, data binary" in reason(rows.count)


def test_wrong_credentials_are_told(on: Nats, tmp_path: Path) -> None:
    from tests.servers import running_server

    with running_server(on.broker.server.kind, config="authorization { user: a, password: b }") as server:
        options = {"servers": f"nats://{server.host}:{server.port}", "stream": "S", "nats.user": "a"}
        rows = on.spark.read.format("nats").options(**options, **{"nats.password": "wrong"}).load()
        told = reason(rows.count)
    assert "authorization" in told.lower() or "credentials" in told.lower()


def test_the_module_for_discovery_never_fails_to_import() -> None:
    """One that does would keep Spark from finding any Python data source."""
    script = (
        "import sys; sys.modules['headrace.client'] = None; import pyspark_nats; print(dir(pyspark_nats))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "DefaultSource" in done.stdout, "which says what is wrong when it is used"
