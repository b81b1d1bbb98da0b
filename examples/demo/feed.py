"""The live feed: publishes every order when it is due, with an id, and waits for its acknowledgement.

A thread. If the machine is too slow for the rate, orders are late but none is left out, and their latency
counts from when they were due.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator

import pyarrow as pa

from examples.demo.orders import Order, Plan
from headrace.client import Client
from headrace.errors import HeadraceError

STREAM = "ORDERS"
ROUND_SECONDS = 0.05
LARGEST_BATCH = 5_000


class Feed(threading.Thread):
    def __init__(self, url: str, plan: Plan) -> None:
        super().__init__(name="feed", daemon=True)
        self.acknowledged = 0
        self.duplicates = 0
        self.failure: HeadraceError | None = None
        self._url = url
        self._plan = plan
        self._stopped = threading.Event()

    @property
    def done(self) -> bool:
        return self.acknowledged >= self._plan.count

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def run(self) -> None:
        try:
            with Client.connect(self._url, name="feed") as client:
                self._publish(client)
        except HeadraceError as failure:
            self.failure = failure

    def _publish(self, client: Client) -> None:
        publisher = client.publisher(stream=STREAM)
        orders = self._plan.orders()
        sent = 0
        while sent < self._plan.count and not self._stopped.is_set():
            batch = list(itertools.islice(orders, self._due() - sent))
            if not batch:
                self._stopped.wait(ROUND_SECONDS)
                continue
            for part in _parts(batch):
                publisher.publish(
                    pa.array([order.subject for order in part]),
                    pa.array([order.payload for order in part]),
                    msg_ids=pa.array([f"order-{order.id}" for order in part]),
                )
                report = publisher.flush()
                self.acknowledged, self.duplicates = report.acked, report.duplicates
            sent += len(batch)

    def _due(self) -> int:
        """How many orders are to be out by now."""
        elapsed_ms = time.time() * 1000 - self._plan.start_ms
        return min(self._plan.count, max(0, int(elapsed_ms * self._plan.rate / 1000)))


def _parts(orders: list[Order]) -> Iterator[list[Order]]:
    for start in range(0, len(orders), LARGEST_BATCH):
        yield orders[start : start + LARGEST_BATCH]
