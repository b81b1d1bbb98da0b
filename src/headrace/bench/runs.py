"""One `headrace bench`: a job, a server, and the result."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from headrace.bench.compare import Measurement, observe
from headrace.bench.failure import BenchError
from headrace.bench.generator import Client, Progress
from headrace.bench.machine import filesystem_of
from headrace.bench.rates import Rate, rate_together
from headrace.bench.servers import Server, running
from headrace.bench.wire import greet
from headrace.bench.workloads import Workload
from headrace.client.addresses import Address

COUNTED_ROLES = ("publisher", "subscriber", "requester")


@dataclass(frozen=True)
class Job:
    """A workload, and its flags, which reports and saved runs include."""

    name: str
    workload: Workload
    subject: str
    num_pubs: int
    num_subs: int
    num_msgs: int
    msg_size: int
    preset: str = ""
    connections: int | None = None
    variant: str = ""  # how else runs of a workload may differ

    def describe(self) -> str:
        if self.connections is not None:
            return f"{self.name}: {self.connections:,} connections"
        text = (
            f"{self.name}: {self.num_msgs:,} messages of {self.msg_size:,} bytes,"
            f" {self.num_pubs:,} → {self.num_subs:,}"
        )
        return f"{text}, {self.variant}" if self.variant else text


@dataclass(frozen=True)
class Finished:
    """A valid run: every expected message has arrived."""

    run_id: str
    started: datetime
    job: Job
    server_name: str
    server_version: str
    measurement: Measurement
    store: str = ""  # the file system under the streams of a server that was started for the run

    @property
    def clients(self) -> list[Client]:
        return self.measurement.sample.clients

    @property
    def total(self) -> Rate:
        """Sent and received together: the first figure of nats-bench."""
        return rate_together([client for client in self.clients if client.role in COUNTED_ROLES])


def run_job(job: Job, server: Server, on_progress: Progress | None = None) -> Finished:
    """Run it once. Raises BenchError with one line that says why the run failed."""
    version = server.version()
    started = datetime.now(UTC)
    with running(server, streams=job.workload.needs_streams) as process:
        limit = greet(process.address).get("max_payload", job.msg_size)
        if job.msg_size > limit:
            raise BenchError(
                f"messages of {job.msg_size:,} bytes are larger than the server accepts ({limit:,})"
            )
        measurement = observe(job.workload, process, on_progress)
        store = filesystem_of(process.store) if process.store else ""
    return Finished(uuid.uuid4().hex, started, job, server.name, version, measurement, store)


def first_that_answers(addresses: Sequence[Address], pid: int | None) -> Server:
    """The servers are tried in this order. Raises BenchError with the error of the first if none answers."""
    reason: BenchError | None = None
    for address in addresses:
        try:
            greet(address)
        except BenchError as error:
            reason = reason or error
        else:
            return replace(Server(address.url, address=address), pid=pid)
    raise reason or BenchError("there is no server to measure")
