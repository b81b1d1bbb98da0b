"""Saved runs with known answers, written as `headrace bench --save` writes them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

STARTED = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

CLIENTS = pyarrow.schema(
    [
        ("run_id", pyarrow.string()),
        ("started", pyarrow.timestamp("us", tz="UTC")),
        *(
            (name, pyarrow.string())
            for name in ("workload", "preset", "server_name", "server_version", "subject")
        ),
        ("num_pubs", pyarrow.int32()),
        ("num_subs", pyarrow.int32()),
        ("num_msgs", pyarrow.int64()),
        ("msg_size", pyarrow.int32()),
        ("client_id", pyarrow.string()),
        ("role", pyarrow.string()),
        ("msg_count", pyarrow.int64()),
        ("msg_bytes", pyarrow.int64()),
        *(
            (name, pyarrow.float64())
            for name in (
                "duration_seconds",
                "msgs_per_sec",
                "bytes_per_sec",
                "run_seconds",
                "total_msgs_per_sec",
            )
        ),
        ("server_cpu_seconds", pyarrow.float64()),
        ("server_peak_rss_bytes", pyarrow.int64()),
        ("generator_cpu_share", pyarrow.float64()),
        ("connections", pyarrow.int32()),
        ("rss_per_connection", pyarrow.float64()),
        ("machine", pyarrow.string()),
        ("cpu", pyarrow.string()),
        ("cores", pyarrow.int32()),
        ("memory_bytes", pyarrow.int64()),
        *((name, pyarrow.string()) for name in ("kernel", "python", "headrace_version", "variant")),
    ]
)

SLICES = pyarrow.schema(
    [
        ("run_id", pyarrow.string()),
        ("slice", pyarrow.int32()),
        ("slice_start_seconds", pyarrow.float64()),
        ("slice_seconds", pyarrow.float64()),
        ("rate_wanted", pyarrow.float64()),
        ("count", pyarrow.int64()),
        ("bucket_us", pyarrow.list_(pyarrow.float64())),
        ("bucket_count", pyarrow.list_(pyarrow.int64())),
        ("max_us", pyarrow.float64()),
    ]
)


def client(role: str, count: int, seconds: float) -> dict[str, Any]:
    return {"role": role, "msg_count": count, "duration_seconds": seconds}


def save_run(
    directory: Path,
    run_id: str,
    clients: Sequence[dict[str, Any]],
    *,
    minute: int = 0,
    slices: Iterable[Sequence[float]] | None = None,
    rate_wanted: float | None = None,
    **constants: Any,
) -> None:
    """Write one run. `slices` are latencies in microseconds, as many sequences as slices of a second."""
    about = {
        "run_id": run_id,
        "started": STARTED + timedelta(minutes=minute),
        "workload": "pubsub",
        "preset": "",
        "server_name": "headrace",
        "server_version": "0.1.0",
        "subject": "test",
        "num_pubs": sum(each["role"] in ("pub", "requester") for each in clients),
        "num_subs": sum(each["role"] in ("sub", "responder") for each in clients),
        "num_msgs": 1000,
        "msg_size": 128,
        "run_seconds": max(each["duration_seconds"] for each in clients),
        "total_msgs_per_sec": 0.0,
        "server_cpu_seconds": None,
        "server_peak_rss_bytes": None,
        "generator_cpu_share": 0.25,
        "connections": None,
        "rss_per_connection": None,
        "machine": "aaaa1111",
        "cpu": "Test CPU",
        "cores": 2,
        "memory_bytes": 8_000_000_000,
        "kernel": "Linux 6.1",
        "python": "CPython 3.11",
        "headrace_version": "0.1.0",
        "variant": "",
    } | constants
    rows = [
        {
            **about,
            "client_id": f"{each['role']}-{number}",
            "msg_bytes": each["msg_count"] * about["msg_size"],
            "msgs_per_sec": each["msg_count"] / (each["duration_seconds"] or 1),
            "bytes_per_sec": each["msg_count"] * about["msg_size"] / (each["duration_seconds"] or 1),
            **each,
        }
        for number, each in enumerate(clients)
    ]
    parquet.write_table(
        pyarrow.Table.from_pylist(rows, schema=CLIENTS), directory / f"clients-{run_id}.parquet"
    )
    if slices is not None:
        table = [_slice(run_id, number, values, rate_wanted) for number, values in enumerate(slices)]
        parquet.write_table(
            pyarrow.Table.from_pylist(table, schema=SLICES), directory / f"slices-{run_id}.parquet"
        )


def _slice(run_id: str, number: int, values: Sequence[float], rate_wanted: float | None) -> dict[str, Any]:
    counts = Counter(upper_bound(value) for value in values)
    return {
        "run_id": run_id,
        "slice": number,
        "slice_start_seconds": float(number),
        "slice_seconds": 1.0,
        "rate_wanted": rate_wanted,
        "count": len(values),
        "bucket_us": sorted(counts),
        "bucket_count": [counts[bound] for bound in sorted(counts)],
        "max_us": max(values, default=0.0),
    }


def upper_bound(microseconds: float) -> float:
    """Of the bucket that holds a duration: 128 buckets per power of two, in whole nanoseconds."""
    nanoseconds = round(microseconds * 1000)
    shift = max(nanoseconds.bit_length() - 8, 0)
    bound = (((nanoseconds >> shift) + 1) << shift) - 1
    assert nanoseconds <= bound <= math.ceil(nanoseconds * (1 + 1 / 128))
    return bound / 1000
