"""The files of a table. The part below `_headrace` is the same for all formats:

    ORDERS/
      _headrace/
        table.json         what the table is, and who may write to it (see `description`)
        checkpoint/        Spark's: where the query is
        dead-letters/      a table of messages that do not fit, in the same format
        retry.json         which of them have just landed, while they are being removed from that table
        deletions/         which keys were deleted while they wait (see `deletions`)

A plain Parquet table has in addition:

    ORDERS/
      date=2026-11-16/
        batch-000000042-0000.parquet          rows of batch 42
        batches-000000000-000000041-0000.parquet   rows of batches 0 to 41, compacted
      _headrace/
        schema.json        its columns
        latest.json        the last batch, and the positions of the streams
        writers/           the last batch of each query that wrote to it
        staging/           files that are being written and do not count yet
        compaction.json    files that replace others, while this happens

Spark, pandas and others ignore names that start with `_` and read the rest as a table that is partitioned as
in Hive; programs that expand a pattern, such as polars and DuckDB, need one that names the partitions. There
is no list of valid files that a reader would have to know: every file that exists counts. So files are
finished in `staging` and then renamed, and their names contain their batch. A batch that is written again
replaces its files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

OWN = "_headrace"
DESCRIPTION = f"{OWN}/table.json"
CHECKPOINT = f"{OWN}/checkpoint"
DEAD_LETTERS = f"{OWN}/dead-letters"
SCHEMA = f"{OWN}/schema.json"
LATEST = f"{OWN}/latest.json"
WRITERS = f"{OWN}/writers"
RETRY_JOURNAL = f"{OWN}/retry.json"
DELETIONS = f"{OWN}/deletions"
STAGING = f"{OWN}/staging"
JOURNAL = f"{OWN}/compaction.json"

# The columns of partitions that are made of a message's time.
PARTITIONS = {
    "date": "date_from_unix_date(int(floor(unix_micros(timestamp) / 86400000000)))",
    "hour": "int(unix_micros(timestamp) div 3600000000 % 24)",
}

_NAME = re.compile(r"(?:batch-(\d{9,})|batches-(\d{9,})-(\d{9,}))-\d{4,}\.\w+")


@dataclass(frozen=True)
class Content:
    """The batches in a file, from its name."""

    first: int
    last: int


def file_name(first: int, last: int, number: int, ending: str) -> str:
    if first == last:
        return f"batch-{first:09d}-{number:04d}.{ending}"
    return f"batches-{first:09d}-{last:09d}-{number:04d}.{ending}"


def other_name(writer: str, batch: int, number: int, ending: str) -> str:
    """The name of a file that is not a batch of the query, and is never compacted."""
    return f"{writer}-{batch:09d}-{number:04d}.{ending}"


def content_of(name: str) -> Content | None:
    """None if it is not a file of this kind."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return Content(int(match[1] or match[2]), int(match[1] or match[3]))
