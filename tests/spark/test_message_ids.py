"""Ids of rows: the same however often a batch is repeated, and never the same for two rows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.writing.message_ids import MessageIds
from headrace.spark.writing.occurrences import Occurrences
from headrace.spark.writing.older_version import batch_of_older_version

Row = tuple[str | None, int | None]

NUMBERS = st.lists(st.lists(st.integers(1, 12), max_size=8), max_size=12)
ROWS = st.lists(st.tuples(st.sampled_from(["A", "B", "A:1"]), st.integers(1, 5)), max_size=40)


def ids_of(rows: list[Row], sizes: list[int]) -> list[str]:
    """The ids of the rows of a partition that come in batches of these sizes."""
    ids, found = MessageIds("q:0:0"), []
    for size in [*sizes, len(rows)]:
        batch, rows = rows[:size], rows[size:]
        if batch:
            streams, seqs = zip(*batch, strict=True)
            made = ids.of_identities(pa.array(streams, pa.string()), pa.array(seqs, pa.int64()))
            found += made.to_pylist()
    return found


@given(NUMBERS)
def test_occurrences_are_those_that_a_counter_finds(arrays: list[list[int]]) -> None:
    seen: Counter[int] = Counter()
    occurrences = Occurrences()
    for array in arrays:
        expected = []
        for value in array:
            expected.append(seen[value])
            seen[value] += 1
        found = occurrences.number(numpy.array(array, numpy.int64))
        assert (found is None and not any(expected)) or list(found) == expected


def test_rising_numbers_are_counted_over_many_arrays() -> None:
    occurrences = Occurrences()
    for start in range(0, 100_000, 1000):
        assert occurrences.number(numpy.arange(start, start + 1000)) is None
    again = occurrences.number(numpy.array([99_999, 100_000, 0, 0]))
    assert again is not None
    assert list(again) == [1, 0, 1, 2]
    assert len(occurrences._seen) < 10


@given(rows=ROWS, sizes=st.lists(st.integers(0, 9), max_size=5))
def test_ids_differ_and_do_not_depend_on_how_rows_are_batched(rows: list[Row], sizes: list[int]) -> None:
    ids = ids_of(rows, sizes)
    assert len(set(ids)) == len(rows)
    assert ids == ids_of(rows, [])


@given(rows=ROWS, gone=st.tuples(st.sampled_from(["A", "B"]), st.integers(1, 5)))
def test_the_ids_of_other_rows_stay_when_a_message_is_deleted(rows: list[Row], gone: Row) -> None:
    before = dict(zip(range(len(rows)), ids_of(rows, []), strict=True))
    kept = [number for number, row in enumerate(rows) if row != gone]
    assert ids_of([rows[number] for number in kept], []) == [before[number] for number in kept]


def test_an_id_says_where_its_row_comes_from() -> None:
    assert ids_of([("A", 7), ("A", 7), ("B", 7)], []) == ["q:0:0:A:7", "q:0:0:A:7+1", "q:0:0:B:7"]


def test_rows_without_an_identity_are_named_by_their_place(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[Row] = [("A", 7), (None, 7), ("A", None), ("A", 8), (None, None)]
    assert ids_of(rows, [3]) == ["q:0:0:A:7", "q:0:0:0", "q:0:0:1", "q:0:0:A:8", "q:0:0:2"]
    assert capsys.readouterr().err.count("rows whose `stream` or `seq` is NULL") == 1


# The batch that an older version left behind

OLD = {"A": {"base": 1, "next": 5, "parts": 1, "created": 9}}
NEW = {"version": 2, "streams": {"A": OLD["A"] | {"gaps": 0}}}


def checkpoint_with(directory: Path, *batches: list[object]) -> str:
    (directory / "offsets").mkdir()
    for number, offsets in enumerate(batches):
        lines = ["v1", "{}", *("-" if offset is None else json.dumps(offset) for offset in offsets)]
        (directory / "offsets" / str(number)).write_text("\n".join(lines))
    return str(directory)


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ([], None),
        ([[OLD]], 0),
        ([[OLD], [OLD]], 1),
        ([[OLD], [NEW]], None),
        ([[OLD, None, {"logOffset": 3}]], 0),
        ([[OLD, NEW]], None),
        ([[{"logOffset": 3}]], None),
    ],
)
def test_the_last_batch_is_an_older_versions_if_all_its_offsets_are(
    tmp_path: Path, batches: list[list[object]], found: int | None
) -> None:
    location = checkpoint_with(tmp_path, *batches)
    assert batch_of_older_version(location) == found
    assert batch_of_older_version(f"file://{location}") == found


@pytest.mark.parametrize(
    "location", ["", "hdfs://somewhere/state", "no/such/directory", "s3a://bucket/state"]
)
def test_a_checkpoint_that_cannot_be_seen_from_here_has_none(location: str) -> None:
    assert batch_of_older_version(location) is None
