"""Names of a table's files say which batches they hold."""

from __future__ import annotations

import pytest

from headrace.spark.table.layout import Content, content_of, file_name


@pytest.mark.parametrize(("first", "last"), [(3, 3), (0, 41), (10**9, 10**9 + 1)])
def test_names_of_files_say_what_is_in_them(first: int, last: int) -> None:
    assert content_of(file_name(first, last, 5, "parquet")) == Content(first, last)


@pytest.mark.parametrize("name", ["part-00000-x.snappy.parquet", "_SUCCESS", "batch-1.parquet", "table.json"])
def test_names_of_other_files_say_nothing(name: str) -> None:
    assert content_of(name) is None
