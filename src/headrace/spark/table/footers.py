"""What the footers of Parquet files say: rows, and for each column nulls, least and greatest value.

The log of a table repeats this, so that readers can skip files without opening them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from headrace.spark.table.files import File, Files
from headrace.spark.table.interface import ColumnFigures, DataFile

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def data_files(files: Files, directory: str) -> list[DataFile]:
    """The Parquet files under a directory of a table, at any depth."""
    return [
        data_file(files, File(f"{directory}/{file.path}" if directory else file.path, file.size))
        for file in files.list(directory)
        if not file.name.startswith(("_", "."))
    ]


def data_file(files: Files, file: File) -> DataFile:
    import pyarrow.parquet

    with files.open(file.path, file.size) as stream:
        footer = pyarrow.parquet.read_metadata(stream)
    return DataFile(
        path=file.path,
        size=file.size,
        rows=footer.num_rows,
        partition=partition_of(file.directory),
        columns=figures_of(footer),
    )


def partition_of(directory: str) -> dict[str, str | None]:
    """The values in names of directories, as Hive and Spark write them: `date=2026-11-16/kind=a%2Fb`."""
    found: dict[str, str | None] = {}
    for part in directory.split("/"):
        name, equals, value = part.partition("=")
        if equals:
            found[unquote(name)] = None if value == NULL_PARTITION else unquote(value)
    return found


def figures_of(footer: Any) -> Mapping[str, ColumnFigures]:
    """By column."""
    found: dict[str, ColumnFigures] = {}
    for index in range(footer.num_columns):
        column = footer.schema.column(index)
        if column.path == column.name and not column.max_repetition_level:
            chunks = [footer.row_group(group).column(index) for group in range(footer.num_row_groups)]
            found[column.name] = _figures([chunk.statistics for chunk in chunks])
    return found


def _figures(chunks: Sequence[Any]) -> ColumnFigures:
    if not all(chunk is not None and chunk.has_null_count for chunk in chunks):
        return ColumnFigures(None)
    nulls = sum(chunk.null_count for chunk in chunks)
    # A chunk without values has no least value; if one with values has none, nothing is known.
    valued = [chunk for chunk in chunks if chunk.num_values]
    if not valued or not all(chunk.has_min_max for chunk in valued):
        return ColumnFigures(nulls)
    return ColumnFigures(nulls, min(chunk.min for chunk in valued), max(chunk.max for chunk in valued))
