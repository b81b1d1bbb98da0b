"""Landing a stream in tables: plain Parquet, Delta, Delta with typed columns from JSON; and one commit."""

from __future__ import annotations

import itertools
import shutil
import time
from typing import TYPE_CHECKING

from benchmarks.spark.work import STREAM, Place
from headrace.bench.failure import BenchError
from headrace.spark.land import Landing, start_landing
from headrace.spark.payload.schema import read_schema
from headrace.spark.table.delta.table import DeltaFormat
from headrace.spark.table.interface import Commit, DataFile, Settings, StreamPosition
from headrace.spark.table.opening import open_table

if TYPE_CHECKING:
    from headrace.spark.payload.decoding import Decoding

JSON_STREAM = "BENCHJSON"
SIX_FIELDS = "id BIGINT, customer STRING, country STRING, amount DOUBLE, items INT, paid BOOLEAN"
COUNTRIES = ("de", "at", "ch", "fr")
PAID = ("true", "false")
FILES = 10_000
COMMITS = 110  # one of them writes a checkpoint of the log

_numbers = itertools.count()


def json_payload(number: int) -> bytes:
    """An order with six fields, in about 110 bytes."""
    country = COUNTRIES[number % len(COUNTRIES)]
    who = f'"id": {number}, "customer": "customer-{number % 5000}", "country": "{country}"'
    what = f'"amount": {number % 10_000 / 100}, "items": {number % 9 + 1}, "paid": {PAID[number % 2]}'
    return f"{{{who}, {what}}}".encode()


def land_parquet(place: Place) -> float:
    return _land(place, STREAM, "parquet", None)


def land_delta(place: Place) -> float:
    return _land(place, STREAM, "delta", None)


def land_typed(place: Place) -> float:
    return _land(place, JSON_STREAM, "delta", read_schema(SIX_FIELDS))


def _land(place: Place, stream: str, form: str, decoding: Decoding | None) -> float:
    """As `headrace land --once` does, into a new table. The time includes the start of the query."""
    directory = place.directory / f"landed-{next(_numbers)}"
    landing = Landing(
        stream,
        str(directory),
        {"servers": place.url},
        partition_by="none",
        settings=Settings(form),
        decoding=decoding,
    )
    began = time.perf_counter()
    start_landing(place.spark, landing, once=True).awaitTermination()
    seconds = time.perf_counter() - began
    landed = sum(file.rows for file in open_table(place.spark, str(directory), Settings()).files())
    shutil.rmtree(directory)
    if landed != place.rows:
        raise BenchError(f"{landed} of {place.rows} rows are in the table")
    return place.rows / seconds


def commit_seconds(place: Place, files: int = FILES) -> list[float]:
    """How long commits take in a Delta table that has many files; each adds four.

    The files are only named: a commit does not open them.
    """
    directory = place.directory / "many-files"
    table = DeltaFormat(place.spark, str(directory))
    table.create(place.spark.range(1).schema, ())
    rounds = range(files // 1000)
    for number in rounds:
        table.commit(_commit(number), [_file(number, part) for part in range(1000)])
    times = []
    for number in range(len(rounds), len(rounds) + COMMITS):
        batch = [_file(number, part) for part in range(4)]
        began = time.perf_counter()
        table.commit(_commit(number), batch)
        times.append(time.perf_counter() - began)
    shutil.rmtree(directory)
    return times


def _commit(number: int) -> Commit:
    return Commit("bench", number, {STREAM: StreamPosition(number + 1)})


def _file(number: int, part: int) -> DataFile:
    return DataFile(f"data/batch-{number:09d}-00000000/part-{part:05d}.parquet", 1000, 10)
