"""The project's own client: publishes columns with and without ids, and reads ranges back as columns."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pyarrow as pa

from headrace.client import Client
from headrace.errors import HeadraceError
from tests.soak.actor import Actor, Habit
from tests.soak.ledger import Limits
from tests.soak.messages import ID_HEADER, Stored, payload_of

STREAM = "COLUMNS"
MOST_MESSAGES = 20_000


class ColumnsActor(Actor):
    async def prepare(self) -> None:
        self.ledger = await self.make_stream(
            STREAM,
            Limits(messages=MOST_MESSAGES),
            subjects=[f"{STREAM}.>"],
            max_msgs=MOST_MESSAGES,
            duplicate_window=int(120e9),
        )

    def habits(self) -> list[tuple[Habit, float]]:
        return [(self.publish_columns, 1.0), (self.read_columns, 4.0)]

    async def publish_columns(self) -> None:
        """With ids it is safe to continue after a lost connection; without, the rest is unknown."""
        with_ids = self.random.random() < 0.6
        subject = f"{STREAM}.{self.random.randrange(4)}"
        identities = [self.new_identity() for _ in range(self.random.randint(1, 150))]
        sizes = [self.random.randint(0, 1500) for _ in identities]
        for identity in identities:
            self.ledger.send(identity, subject, self.life, headed=with_ids)
        data = [payload_of(STREAM, identity, size) for identity, size in zip(identities, sizes, strict=True)]
        if await asyncio.to_thread(self._publish_all, subject, identities, data, with_ids):
            for identity in identities:
                self.ledger.acknowledge_somewhere(identity)
        else:
            self.counts["unknown"] += len(identities)

    def _publish_all(self, subject: str, identities: list[str], data: list[bytes], with_ids: bool) -> bool:
        """Whether all were acknowledged. Runs in a thread: this client is blocking."""
        headers = pa.array(
            [[(ID_HEADER, identity)] for identity in identities], pa.map_(pa.string(), pa.string())
        )
        try:
            with Client.connect(f"nats://127.0.0.1:{self.port}", request_timeout=40) as client:
                publisher = client.publisher(stream=STREAM, ack_timeout=40)
                if with_ids:
                    publisher.publish(subject, pa.array(data), headers, pa.array(identities))
                else:
                    publisher.publish(subject, pa.array(data))
                publisher.flush()
        except HeadraceError:
            return False
        return True

    async def read_columns(self) -> None:
        """A range is complete: all that was acknowledged before is in it, but what the limit took."""
        wanted = [one for one, entry in self.ledger.entries.items() if entry.seq or entry.certain]
        try:
            stored, last = await asyncio.to_thread(self._read_all)
        except HeadraceError:
            self.counts["disturbed"] += 1
            return
        identities = {self.ledger.recognise_delivery(message) for message in stored}
        for identity in wanted:
            entry = self.ledger.entries.get(identity)
            if entry is not None and identity not in identities and last - entry.after < MOST_MESSAGES:
                self.findings.add("skipped", f"{STREAM}: a range did not have {identity}")
        if any(later.seq <= earlier.seq for earlier, later in pairwise(stored)):
            self.findings.add("skipped", f"{STREAM}: a range was out of order")
        self.counts["replays"] += 1

    def _read_all(self) -> tuple[list[Stored], int]:
        """And the last sequence afterwards: what comes meanwhile makes the limit take the first ones."""
        with Client.connect(f"nats://127.0.0.1:{self.port}", request_timeout=40) as client:
            info = client.stream_info(STREAM)
            batches = client.fetch_range(STREAM, max(1, info.first_seq), info.last_seq)
            stored = [_stored(row) for batch in batches for row in batch.to_pylist()]
            return stored, client.stream_info(STREAM).last_seq


def _stored(row: dict[str, Any]) -> Stored:
    lines = [f"{field['key']}: {field['value']}" for field in row["headers"] or ()]
    return Stored(row["seq"], row["subject"], "\r\n".join(["NATS/1.0", *lines]).encode(), row["data"])
