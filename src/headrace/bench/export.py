"""A run for other programs: the CSV of nats-bench, and JSON with everything."""

from __future__ import annotations

import csv
import errno
import math
import os
from pathlib import Path
from typing import Any

from headrace.bench.failure import BenchError
from headrace.bench.machine import describe_machine
from headrace.bench.rates import rate_of
from headrace.bench.runs import Finished
from headrace.bench.seeds import PRESETS, seeds_of

CSV_COLUMNS = ("RunID", "ClientID", "MsgCount", "MsgBytes", "MsgsPerSec", "BytesPerSec", "DurationSecs")
ROLES = {
    # of the generator: in the saved runs, and the letter of the client's id
    "subscriber": ("sub", "S"),
    "publisher": ("pub", "P"),
    "requester": ("requester", "R"),
    "responder": ("responder", "A"),
}


def client_rows(run: Finished) -> list[dict[str, Any]]:
    """By client: its id (S0, S1, ... P0, ...), role, counts and rates, as all the exports have them."""
    rows = []
    for role, (name, letter) in ROLES.items():
        members = [client for client in run.clients if client.role == role]
        for number, client in enumerate(members):
            rate = rate_of(client)
            rows.append(
                {
                    "client_id": f"{letter}{number}",
                    "role": name,
                    "msg_count": client.messages,
                    "msg_bytes": client.payload_bytes,
                    "msgs_per_sec": rate.messages_per_second,
                    "bytes_per_sec": rate.bytes_per_second,
                    "duration_seconds": client.seconds,
                }
            )
    return rows


def check_can_write(path: str) -> None:
    """Before the run: a typo must not lose the figures of a long one. Raises BenchError.

    Nothing is created or truncated: if the run fails, an older file is still there.
    """
    target = Path(path)
    if target.is_dir():
        reason = errno.EISDIR
    elif not target.parent.exists():
        reason = errno.ENOENT
    elif not target.parent.is_dir():
        reason = errno.ENOTDIR
    elif not os.access(target if target.exists() else target.parent, os.W_OK):
        reason = errno.EACCES
    else:
        return
    raise BenchError(f"cannot write {path}: {os.strerror(reason)}")


def write_csv(run: Finished, path: str) -> None:
    try:
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(CSV_COLUMNS)
            for row in client_rows(run):
                writer.writerow(
                    [
                        run.run_id,
                        row["client_id"],
                        row["msg_count"],
                        row["msg_bytes"],
                        int(row["msgs_per_sec"]),
                        f"{row['bytes_per_sec']:f}",
                        f"{row['duration_seconds']:f}",
                    ]
                )
    except OSError as error:
        raise BenchError(f"cannot write {path}: {error.strerror}") from None


def as_json(run: Finished) -> dict[str, Any]:
    job, measurement = run.job, run.measurement
    sample, total = measurement.sample, run.total
    document: dict[str, Any] = {
        "run_id": run.run_id,
        "started": run.started.isoformat(),
        "workload": job.name,
        "preset": job.preset,
        "server": {"name": run.server_name, "version": run.server_version},
        "machine": describe_machine(),
        "variant": job.variant,
        "subject": job.subject,
        "num_pubs": job.num_pubs,
        "num_subs": job.num_subs,
        "num_msgs": job.num_msgs,
        "msg_size": job.msg_size,
        "seconds": sample.seconds,
        "total_msgs_per_sec": total.messages_per_second,
        "total_bytes_per_sec": total.bytes_per_second,
        "generator_cpu_share": sample.generator_cpu_share,
        "server_cpu_seconds": measurement.server_cpu_seconds,
        "server_peak_rss_bytes": measurement.server_peak_rss_bytes,
        "store_filesystem": run.store or None,
        "clients": client_rows(run),
    }
    if sample.latency is not None:
        document["latency_us"] = sample.latency.percentiles()
        document["slices"] = [
            {"start_seconds": part.start_seconds, "count": part.distribution.count}
            | part.distribution.percentiles()
            for part in sample.slices
        ]
    if sample.send_delay is not None:
        document["send_delay_us"] = sample.send_delay.percentiles()
    if job.connections is not None:
        document["connections"] = job.connections
        document["rss_per_connection"] = rss_per_connection(run)
    if job.preset:
        document["seeds"] = [
            {"system": seed.system, "step": seed.step, "total_msgs_per_sec": seed.total_msgs_per_s}
            for seed in seeds_of(PRESETS[job.preset])
        ]
    return document


def rss_per_connection(run: Finished) -> float | None:
    """Bytes; None for other workloads, or if the server's memory is unknown."""
    value = run.measurement.sample.value
    return None if run.job.connections is None or math.isnan(value) else value * 1000
