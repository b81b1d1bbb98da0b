"""Places in streams: what a batch reads, how limits are shared, how ranges are split."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.failure import DataLossError, DataSourceError
from headrace.spark.reading.admission import advance, share
from headrace.spark.reading.offsets import (
    INITIAL,
    Extent,
    Position,
    Range,
    check_kept,
    from_json,
    ranges_between,
    resolve,
    to_json,
    version_of,
)
from headrace.spark.reading.partitions import PARALLELISM_VARIABLE, StreamPartition, count_parts, split

EXTENT = Extent(first=11, last=20, messages=10, bytes=1000)


def test_the_first_batch_begins_at_the_base_of_its_end() -> None:
    end = {"A": Position(base=11, next=15, parts=2)}
    assert ranges_between(from_json(INITIAL), end) == [Range("A", 11, 14, 2)]


def test_the_next_batch_begins_where_the_last_one_ended() -> None:
    start, end = {"A": Position(11, 15)}, {"A": Position(11, 21, 3)}
    assert ranges_between(start, end) == [Range("A", 15, 20, 3)]


def test_a_stream_that_is_added_to_a_query_begins_at_its_base() -> None:
    start, end = {"A": Position(1, 5)}, {"A": Position(1, 5), "B": Position(7, 9, 1)}
    assert ranges_between(start, end) == [Range("B", 7, 8, 1)]


def test_a_stream_that_was_re_created_begins_at_its_base() -> None:
    assert ranges_between({"A": Position(1, 500)}, {"A": Position(1, 4)}) == [Range("A", 1, 3, 1)]


def test_a_stream_that_was_re_created_and_is_longer_than_before_begins_at_its_base() -> None:
    start, end = {"A": Position(1, 5, created=7)}, {"A": Position(1, 9, created=8)}
    assert ranges_between(start, end) == [Range("A", 1, 8, 1)]


def test_an_offset_carries_its_version() -> None:
    assert to_json({"A": Position(1, 2)})["version"] == 2


def test_an_offset_of_the_first_version_is_read() -> None:
    first = {"version": {"base": 3, "next": 4, "parts": 2, "created": 5}}
    assert from_json(first) == {"version": Position(3, 4, 2, 5)}
    assert version_of(first) == 1


def test_an_offset_of_a_later_version_is_refused_in_one_line() -> None:
    later = {"version": 3, "streams": {"A": {"sector": 9}}}
    with pytest.raises(DataSourceError, match="version 3, of a newer headrace") as raised:
        from_json(later)
    assert "\n" not in str(raised.value)


def test_equal_offsets_read_nothing() -> None:
    assert ranges_between({"A": Position(1, 5)}, {"A": Position(1, 5)}) == []


def test_an_offset_is_the_same_text_whatever_the_order_of_streams() -> None:
    one, other = {"A": Position(1, 2), "B": Position(3, 4)}, {"B": Position(3, 4), "A": Position(1, 2)}
    assert json.dumps(to_json(one)) == json.dumps(to_json(other))
    assert from_json(json.loads(json.dumps(to_json(one)))) == one


@pytest.mark.parametrize(
    "foreign", [{"logOffset": 3}, {"topic": {"0": 12}}, {"A": {"next": 1}}, {"version": 1}]
)
def test_a_checkpoint_of_another_source_is_reported(foreign: dict[str, object]) -> None:
    with pytest.raises(DataSourceError, match="not one of this source") as raised:
        from_json(foreign)
    assert "checkpoint directory" in raised.value.hint


@pytest.mark.parametrize(("wanted", "sequence"), [("earliest", 11), ("latest", 21), (11, 11), (21, 21)])
def test_a_start_is_resolved(wanted: str | int, sequence: int) -> None:
    assert resolve("A", wanted, EXTENT, fail_on_data_loss=True) == sequence


def test_a_start_beyond_the_end_is_reported() -> None:
    with pytest.raises(DataSourceError, match="ends at 20, but reading is to start at 22") as raised:
        resolve("A", 22, EXTENT, fail_on_data_loss=False)
    assert "21" in raised.value.hint


@pytest.mark.parametrize(
    ("first", "reason"), [(5, "messages 5 to 10 of the stream A were removed"), (50, "re-created")]
)
def test_lost_messages_are_an_error_unless_they_may_be_lost(first: int, reason: str) -> None:
    with pytest.raises(DataLossError, match=reason) as raised:
        check_kept("A", first, EXTENT, fail_on_data_loss=True)
    assert "failOnDataLoss" in raised.value.hint
    assert "`headrace land`: --on-data-loss continue" in raised.value.hint
    assert check_kept("A", first, EXTENT, fail_on_data_loss=False) == 11


# Admission control


def test_without_a_limit_a_batch_goes_to_the_end() -> None:
    assert advance({"A": Position(11, 11)}, {"A": EXTENT})["A"].next == 21


def test_a_limit_on_rows_is_kept() -> None:
    assert advance({"A": Position(11, 11)}, {"A": EXTENT}, max_rows=3)["A"].next == 14


def test_a_limit_on_bytes_goes_by_the_mean_size() -> None:
    assert advance({"A": Position(11, 11)}, {"A": EXTENT}, max_bytes=450)["A"].next == 15


def test_the_smaller_of_two_limits_counts() -> None:
    positions = {"A": Position(11, 11)}
    assert advance(positions, {"A": EXTENT}, max_bytes=450, max_rows=2)["A"].next == 13
    assert advance(positions, {"A": EXTENT}, max_bytes=150, max_rows=2)["A"].next == 12


def test_a_quiet_stream_is_not_kept_waiting_by_a_busy_one() -> None:
    extents = {"busy": Extent(1, 1_000_000), "quiet": Extent(1, 10)}
    end = advance({"busy": Position(1, 1), "quiet": Position(1, 1)}, extents, max_rows=1000)
    assert (end["quiet"].next, end["busy"].next) == (11, 991)


def test_places_of_streams_that_are_not_read_now_are_kept() -> None:
    assert advance({"A": Position(11, 21), "old": Position(1, 7)}, {"A": EXTENT})["old"] == Position(1, 7)


@given(
    demands=st.dictionaries(st.text(max_size=3), st.integers(0, 10_000), max_size=8),
    limit=st.integers(1, 20_000),
)
def test_a_share_is_fair(demands: dict[str, int], limit: int) -> None:
    granted = share(demands, limit)
    wanting = {name: amount for name, amount in demands.items() if amount}
    assert granted.keys() == wanting.keys()
    assert all(1 <= granted[name] <= wanting[name] for name in granted)
    assert sum(granted.values()) <= max(limit, len(wanting))
    if sum(wanting.values()) <= limit:
        assert granted == wanting
    for name in granted:
        if granted[name] < wanting[name]:
            assert granted[name] >= max(granted.values()) - len(granted), (
                "whoever is limited gets as much as any"
            )


# Partitions


@given(first=st.integers(1, 10**12), count=st.integers(1, 10_000), parts=st.integers(1, 40))
def test_partitions_cover_the_range_once_and_evenly(first: int, count: int, parts: int) -> None:
    partitions = split([Range("A", first, first + count - 1, parts)])
    assert partitions[0].first == first
    assert partitions[-1].last == first + count - 1
    assert all(left.last + 1 == right.first for left, right in itertools.pairwise(partitions))
    sizes = {partition.last - partition.first + 1 for partition in partitions}
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    assert len(partitions) == min(parts, count)


def test_partitions_of_several_streams_stay_apart() -> None:
    ranges = [Range("A", 1, 4, 2), Range("B", 9, 9, 1)]
    assert split(ranges) == [
        StreamPartition("A", 1, 2),
        StreamPartition("A", 3, 4),
        StreamPartition("B", 9, 9),
    ]


@pytest.mark.parametrize(
    ("cores", "rows", "at_least", "parts"),
    [
        ("4", [100], None, [1]),
        ("4", [100], 7, [7]),
        ("4", [3], 7, [3]),
        ("4", [10**7], None, [4]),
        ("4", [120_000], None, [2]),
        ("4", [10**7], 64, [64]),
        ("4", [10**7], 2, [4]),
        ("4", [1, 10**7], 8, [1, 7]),
        ("4", [10, 20], 6, [2, 4]),
        ("", [10**6], None, [10]),
        ("", [10**9], None, [128]),
        ("", [10**5, 3 * 10**5], 5, [2, 3]),
        ("4", [], 5, []),
    ],
)
def test_partitions_are_at_least_as_many_as_asked_for(
    monkeypatch: pytest.MonkeyPatch, cores: str, rows: list[int], at_least: int | None, parts: list[int]
) -> None:
    """One per task that can run at once, if it is known how many can; who plans does not count."""
    monkeypatch.setenv(PARALLELISM_VARIABLE, cores)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    named = {f"S{number}": count for number, count in enumerate(rows)}
    assert list(count_parts(named, at_least).values()) == parts
