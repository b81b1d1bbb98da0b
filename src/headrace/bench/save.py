"""`--save DIR`: a run as Parquet, for the report that compares runs across days and machines.

`clients-<run_id>.parquet` has one row per client, `slices-<run_id>.parquet` one per second of a run with
latencies. Every row also has the columns of the whole run, so each file can be read on its own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.bench.export import client_rows, rss_per_connection
from headrace.bench.failure import BenchError
from headrace.bench.machine import machine_facts
from headrace.bench.runs import Finished

if TYPE_CHECKING:
    import pyarrow

CLIENT_FIELDS = (
    ("run_id", "string"),
    ("started", "timestamp"),
    ("workload", "string"),
    ("preset", "string"),
    ("server_name", "string"),
    ("server_version", "string"),
    ("subject", "string"),
    ("num_pubs", "int32"),
    ("num_subs", "int32"),
    ("num_msgs", "int64"),
    ("msg_size", "int32"),
    ("client_id", "string"),
    ("role", "string"),
    ("msg_count", "int64"),
    ("msg_bytes", "int64"),
    ("duration_seconds", "float64"),
    ("msgs_per_sec", "float64"),
    ("bytes_per_sec", "float64"),
    ("run_seconds", "float64"),
    ("total_msgs_per_sec", "float64"),
    ("server_cpu_seconds", "float64"),
    ("server_peak_rss_bytes", "int64"),
    ("generator_cpu_share", "float64"),
    ("connections", "int32"),
    ("rss_per_connection", "float64"),
    ("machine", "string"),
    ("cpu", "string"),
    ("cores", "int32"),
    ("memory_bytes", "int64"),
    ("kernel", "string"),
    ("python", "string"),
    ("headrace_version", "string"),
    ("variant", "string"),
)
SLICE_FIELDS = (
    ("run_id", "string"),
    ("slice", "int32"),
    ("slice_start_seconds", "float64"),
    ("slice_seconds", "float64"),
    ("rate_wanted", "float64"),
    ("count", "int64"),
    ("bucket_us", "doubles"),
    ("bucket_count", "integers"),
    ("max_us", "float64"),
)
IDLE = {
    "client_id": "I0",
    "role": "idle",
    "msg_count": 0,
    "msg_bytes": 0,
    "duration_seconds": 0.0,
    "msgs_per_sec": 0.0,
    "bytes_per_sec": 0.0,
}


def check_can_save(directory: str) -> None:
    """Before the run: report what is missing now, not after the measurement. Raises BenchError."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise BenchError("--save needs pyarrow: pip install 'headrace[spark]'") from None
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise BenchError(f"cannot create {directory}: {error.strerror}") from None


def save(run: Finished, directory: str) -> list[Path]:
    """Returns the files that were written."""
    written = [_write(CLIENT_FIELDS, _clients(run), Path(directory, f"clients-{run.run_id}.parquet"))]
    if slices := _slices(run):
        written.append(_write(SLICE_FIELDS, slices, Path(directory, f"slices-{run.run_id}.parquet")))
    return written


def _clients(run: Finished) -> list[dict[str, Any]]:
    job, measurement = run.job, run.measurement
    whole = {
        "run_id": run.run_id,
        "started": run.started,
        "workload": job.name,
        "variant": job.variant,
        "preset": job.preset,
        "server_name": run.server_name,
        "server_version": run.server_version,
        "subject": job.subject,
        "num_pubs": job.num_pubs,
        "num_subs": job.num_subs,
        "num_msgs": job.num_msgs,
        "msg_size": job.msg_size,
        "run_seconds": measurement.sample.seconds,
        "total_msgs_per_sec": run.total.messages_per_second,
        "server_cpu_seconds": measurement.server_cpu_seconds,
        "server_peak_rss_bytes": measurement.server_peak_rss_bytes,
        "generator_cpu_share": measurement.sample.generator_cpu_share,
        "connections": job.connections,
        "rss_per_connection": rss_per_connection(run),
        **machine_facts(),
    }
    return [whole | row for row in client_rows(run) or [IDLE]]


def _slices(run: Finished) -> list[dict[str, Any]]:
    return [
        {
            "run_id": run.run_id,
            "slice": part.number,
            "slice_start_seconds": part.start_seconds,
            "slice_seconds": part.seconds,
            "rate_wanted": part.rate_wanted,
            "count": part.distribution.count,
            "bucket_us": list(part.distribution.bounds_us),
            "bucket_count": list(part.distribution.counts),
            "max_us": part.distribution.max_us,
        }
        for part in run.measurement.sample.slices
    ]


def _write(fields: tuple[tuple[str, str], ...], rows: list[dict[str, Any]], path: Path) -> Path:
    """Written under another name first, so that a reader never sees half a file."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist(rows, schema=_schema(fields))
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        pyarrow.parquet.write_table(table, unfinished)
        unfinished.replace(path)
    except OSError as error:
        raise BenchError(f"cannot write {path}: {error.strerror or error}") from None
    return path


def _schema(fields: tuple[tuple[str, str], ...]) -> pyarrow.Schema:
    import pyarrow

    types = {
        "timestamp": pyarrow.timestamp("us", tz="UTC"),
        "doubles": pyarrow.list_(pyarrow.float64()),
        "integers": pyarrow.list_(pyarrow.int64()),
        "string": pyarrow.string(),
        "int32": pyarrow.int32(),
        "int64": pyarrow.int64(),
        "float64": pyarrow.float64(),
    }
    return pyarrow.schema([(name, types[kind]) for name, kind in fields])
