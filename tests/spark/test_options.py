"""Options: each wrong one is a line that says what to do."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from headrace.spark.failure import DataSourceError, in_one_line
from headrace.spark.options import Use, read_options, write_options

DAY = 86_400 * 10**9


def read(use: Use = Use.BATCH, **options: str) -> object:
    return read_options(CaseInsensitiveDict({"stream": "ORDERS"} | options), use)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"startingOffset": "earliest"}, "unknown option `startingoffset`; did you mean `startingOffsets`?"),
        ({"xyzzy": "1"}, "unknown option `xyzzy`; docs/spark.md lists the options"),
        ({"stream": " , "}, "`stream` must name at least one, or be a comma-separated list, not ' , '"),
        ({"startingOffsets": "{"}, "`startingOffsets` must be earliest, latest, or JSON such as"),
        ({"startingOffsets": "[1]"}, "`startingOffsets` must be earliest, latest, or JSON such as"),
        ({"startingOffsets": '{"ORDERS": 0}'}, "must give a sequence, 1 or more, or earliest or latest"),
        ({"startingOffsets": '{"ORDERS": true}'}, "must give a sequence, 1 or more, or earliest or latest"),
        ({"startingOffsets": '{"OTHER": 1}'}, "`startingOffsets` names OTHER, which `stream` does not"),
        ({"stream": "A,B", "startingOffsets": '{"A": 1}'}, '`startingOffsets` says nothing about B; add "B"'),
        (
            {"startingTimestamp": "yesterday"},
            "`startingTimestamp` must be a time such as 2026-01-31T12:00:00Z",
        ),
        ({"startingTimestamp": "0", "startingOffsets": "latest"}, "are both given; omit one of them"),
        ({"endingOffsets": "earliest"}, "nothing would be read"),
        ({"startingTimestamp": "9" * 17}, "`startingTimestamp` must be a time such as 2026-01-31T12:00:00Z"),
        ({"startingTimestamp": "-5"}, "`startingTimestamp` must be a time such as 2026-01-31T12:00:00Z"),
        ({"subject": "a.*,*.b"}, "`subject` has a.* and *.b, and some subjects match both; read with one"),
        ({"subject": "a..b"}, "`subject` 'a..b' is not a valid subject; use dot-separated tokens"),
        ({"minPartitions": "0"}, "`minPartitions` must be a whole number, 1 or more, not '0'"),
        ({"includeHeaders": "yes"}, "`includeHeaders` must be true or false, not 'yes'"),
        (
            {"maxOffsetsPerTrigger": "5"},
            "`maxOffsetsPerTrigger` is an option of spark.readStream; leave it out",
        ),
        ({"acks": "all"}, "`acks` is an option of write and writeStream; leave it out here"),
    ],
)
def test_a_wrong_option_of_a_read_is_reported(options: dict[str, str], told: str) -> None:
    with pytest.raises(DataSourceError) as raised:
        read(**options)
    assert told in in_one_line(raised.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"acks": "some"}, "`acks` must be all or none, not 'some'"),
        ({"subject": "a,b"}, "a sink takes one `subject`, not 2; for several subjects"),
        ({"subject": "orders.>"}, "`subject` orders.> has a wildcard; publish to a subject without one"),
        ({"startingOffsets": "latest"}, "is an option of spark.read and spark.readStream; leave it out here"),
        ({"maxInFlight": "many"}, "`maxInFlight` must be a whole number, 1 or more, not 'many'"),
    ],
)
def test_a_wrong_option_of_a_write_is_reported(options: dict[str, str], told: str) -> None:
    with pytest.raises(DataSourceError) as raised:
        write_options(CaseInsensitiveDict(options))
    assert told in in_one_line(raised.value)


def test_a_missing_stream_is_reported() -> None:
    with pytest.raises(DataSourceError, match="the option `stream` is missing"):
        read_options(CaseInsensitiveDict(), Use.READ)


def test_a_wrong_password_is_not_repeated() -> None:
    assert "secret" not in repr(read(**{"nats.password": "secret", "nats.token": "secret"}))


def test_a_subject_that_another_one_covers_is_not_asked_for() -> None:
    assert read_options({"stream": "S", "subject": "a.b,a.>,c"}, Use.BATCH).subjects == ("a.>", "c")


def test_the_path_of_load_is_the_stream() -> None:
    assert read_options(CaseInsensitiveDict({"path": "A, B"}), Use.READ).streams == ("A", "B")


def test_a_batch_starts_at_the_beginning_and_a_stream_at_the_end() -> None:
    given = CaseInsensitiveDict({"stream": "A"})
    assert read_options(given, Use.BATCH).start == "earliest"
    assert read_options(given, Use.STREAM).start == "latest"


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("86400000", DAY),
        ("1970-01-02", DAY),
        ("1970-01-02T00:00:00Z", DAY),
        ("1970-01-02T01:00:00.000001+01:00", DAY + 1000),
    ],
)
def test_times_are_milliseconds_or_iso(text: str, nanoseconds: int) -> None:
    given = CaseInsensitiveDict({"stream": "A", "startingTimestamp": text})
    assert read_options(given, Use.BATCH).start_time == nanoseconds


@pytest.mark.parametrize(("text", "size"), [("17", 17), ("4k", 4096), ("2MB", 2 << 20), ("1g", 1 << 30)])
def test_sizes_have_units(text: str, size: int) -> None:
    given = CaseInsensitiveDict({"stream": "A", "maxBytesPerTrigger": text})
    assert read_options(given, Use.STREAM).max_bytes == size
