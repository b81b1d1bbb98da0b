"""Saved runs: finds and checks their files, and reads them as data frames.

Every run is `clients-<run id>.parquet`, a row per client, and, where latencies were measured, also
`slices-<run id>.parquet`, a row per slice of time with a histogram. The tables below are the contract with
`headrace bench --save`. The files' own schemas are checked before Spark starts: a wrong file is then an
error after milliseconds, with its name, instead of a page of Java after ten seconds.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.bench.failure import BenchError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLIENT_FILES = "clients-*.parquet"
SLICE_FILES = "slices-*.parquet"

CLIENT_COLUMNS = {
    "run_id": "string",
    "started": "timestamp[us, tz=UTC]",
    "workload": "string",
    "preset": "string",
    "server_name": "string",
    "server_version": "string",
    "subject": "string",
    "num_pubs": "int32",
    "num_subs": "int32",
    "num_msgs": "int64",
    "msg_size": "int32",
    "client_id": "string",
    "role": "string",
    "msg_count": "int64",
    "msg_bytes": "int64",
    "duration_seconds": "double",
    "msgs_per_sec": "double",
    "bytes_per_sec": "double",
    "run_seconds": "double",
    "total_msgs_per_sec": "double",
    "server_cpu_seconds": "double",
    "server_peak_rss_bytes": "int64",
    "generator_cpu_share": "double",
    "connections": "int32",
    "rss_per_connection": "double",
    "machine": "string",
    "cpu": "string",
    "cores": "int32",
    "memory_bytes": "int64",
    "kernel": "string",
    "python": "string",
    "headrace_version": "string",
}

LATER_COLUMNS = {"variant": "string"}
"""Columns of clients that older saved runs do not have."""

SLICE_COLUMNS = {
    "run_id": "string",
    "slice": "int32",
    "slice_start_seconds": "double",
    "slice_seconds": "double",
    "rate_wanted": "double",
    "count": "int64",
    "bucket_us": "list<double>",
    "bucket_count": "list<int64>",
    "max_us": "double",
}

SPARK_TYPES = {
    "string": "STRING",
    "timestamp[us, tz=UTC]": "TIMESTAMP",
    "int32": "INT",
    "int64": "BIGINT",
    "double": "DOUBLE",
    "list<double>": "ARRAY<DOUBLE>",
    "list<int64>": "ARRAY<BIGINT>",
}


@dataclass(frozen=True)
class SavedRuns:
    """A directory whose files were checked."""

    directory: Path
    count: int


def find_runs(directory: Path) -> SavedRuns:
    """The saved runs of a directory. Raises BenchError if there are none, or if a file is not one."""
    if not directory.is_dir():
        raise BenchError(
            f"directory {directory} does not exist" if not directory.exists() else f"{directory} is a file"
        )
    try:
        clients = sorted(directory.glob(CLIENT_FILES))
        slices = sorted(directory.glob(SLICE_FILES))
    except OSError as error:
        raise BenchError(f"cannot read {directory}: {error.strerror}") from None
    if not clients:
        raise BenchError(
            f"no saved runs in {directory}", hint=f"`headrace bench --save {directory}` saves one"
        )
    for path in clients:
        _check(path, CLIENT_COLUMNS, LATER_COLUMNS)
    for path in slices:
        _check(path, SLICE_COLUMNS)
    return SavedRuns(directory, len(clients))


def _check(path: Path, columns: dict[str, str], later: dict[str, str] | None = None) -> None:
    """Check that the file is Parquet and has these columns with these types; it may have more.

    The `later` columns may be missing, too.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise BenchError(
            "pyarrow is not installed", hint="`pip install 'headrace[spark]'` installs it"
        ) from None
    try:
        schema = parquet.read_schema(path)
    except (OSError, pyarrow.ArrowException) as error:
        reason = str(error).strip().splitlines()[0]
        raise BenchError(f"{path} is not a saved run: {reason}") from None
    found = {field.name: re.sub(r"<\w+: (\w+)( not null)?>", r"<\1>", str(field.type)) for field in schema}
    missing = [name for name in columns if name not in found]
    if missing:
        raise BenchError(f"{path} is not a saved run: it has no column {', '.join(missing)}")
    for name, kind in {**columns, **(later or {})}.items():
        if found.get(name, kind) != kind:
            raise BenchError(f"{path} is not a saved run: column {name} is {found[name]}, not {kind}")


def read_clients(spark: SparkSession, runs: SavedRuns) -> DataFrame:
    clients = _read(spark, runs.directory, CLIENT_FILES, CLIENT_COLUMNS | LATER_COLUMNS)
    return clients.fillna("", list(LATER_COLUMNS))


def read_slices(spark: SparkSession, runs: SavedRuns) -> DataFrame:
    return _read(spark, runs.directory, SLICE_FILES, SLICE_COLUMNS)


def _read(spark: SparkSession, directory: Path, pattern: str, columns: dict[str, str]) -> DataFrame:
    """All files with such a name, as a pattern: from 33 paths on, Spark runs a job to list them."""
    reader = spark.read.schema(_schema(columns)).option("pathGlobFilter", pattern)
    # Spark treats the path as a pattern, and does not decode %20 in it.
    literal = re.sub(r"([][{}*?\\])", r"\\\1", str(directory.resolve()))
    return reader.parquet(f"file://{literal}")


def _schema(columns: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {SPARK_TYPES[kind]}" for name, kind in columns.items())


def read_seeds(spark: SparkSession) -> DataFrame:
    """The published figures of rnats and beaver. As an Arrow table: rows would start a Python worker."""
    import pyarrow

    text = resources.files("headrace.bench").joinpath("seeds.csv").read_text()
    rows = [
        {
            "system": seed["system"],
            "step": seed["step"],
            "pubs": int(seed["pubs"]),
            "subs": int(seed["subs"]),
            "msg_bytes": int(seed["msg_bytes"]),
            "rate": float(seed["total_msgs_per_s"]),
            "rss_bytes": int(seed["rss_kb"]) * 1024 if seed["rss_kb"] else None,
            "machine": seed["machine"],
        }
        for seed in csv.DictReader(text.splitlines())
    ]
    return spark.createDataFrame(pyarrow.Table.from_pylist(rows))
