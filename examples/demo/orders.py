"""What the shop sells: every order of a run follows from its plan, and so does what must come of it.

Nothing here knows what the server or Spark do. That makes it the yardstick: orders, alerts and revenue are
computed a second time, in a few lines of plain Python, and compared in `reconcile`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

# As in examples/shop: shop.yml and large_orders.py.
WINDOW_SECONDS = 5
WATERMARK_SECONDS = 2
LARGE_CENTS = 900_00

COUNTRIES = {"de": 30, "fr": 25, "es": 20, "it": 15, "pl": 10}
"""How many of a hundred orders come from there."""
PRICES_CENTS = {
    "milk": (1_19, 40),
    "coffee": (7_49, 30),
    "backpack": (59_90, 15),
    "chair": (129_00, 10),
    "bicycle": (649_00, 4),
    "laptop": (1_180_00, 1),
}
"""What an item costs, and how many of a hundred orders are for it."""
MOST_PIECES = 3
MALFORMED_EVERY = 2_000
"""One order in this many comes from a program that does not know how to write one."""


@dataclass(frozen=True)
class Order:
    id: int
    country: str
    item: str
    cents: int
    time_ms: int
    """When it is due to be sent, in milliseconds since 1970."""

    @property
    def subject(self) -> str:
        return f"orders.{self.country}"

    @property
    def is_malformed(self) -> bool:
        return is_malformed(self.id)

    @cached_property
    def payload(self) -> bytes:
        time = datetime.fromtimestamp(self.time_ms / 1000, UTC).isoformat(timespec="milliseconds")
        good = (
            f'{{"id": {self.id}, "country": "{self.country}", "item": "{self.item}", '
            f'"amount": {self.cents / 100:.2f}, "time": "{time}"}}'
        ).encode()
        if not self.is_malformed:
            return good
        mistakes = (
            good[:-7],  # cut off
            good.replace(b'"amount": ', b'"amount": "EUR ').replace(b', "time"', b'", "time"'),
            good.replace(b'"id": %d, ' % self.id, b""),
            b"\xff\xfe" + good,
        )
        return mistakes[self.id // MALFORMED_EVERY % len(mistakes)]

    @property
    def row(self) -> tuple[int, str, str, int, int]:
        """As the table of orders has it, with cents and milliseconds."""
        return self.id, self.country, self.item, self.cents, self.time_ms


@dataclass(frozen=True)
class Window:
    """A row of the table of revenue."""

    start_ms: int
    country: str


@dataclass
class Revenue:
    orders: int = 0
    cents: int = 0


@dataclass(frozen=True)
class Plan:
    """All that a run follows from."""

    seed: int
    rate: int
    """Orders per second."""
    count: int
    start_ms: int

    def due_ms(self, number: int) -> int:
        return self.start_ms + number * 1000 // self.rate

    def orders(self) -> Iterator[Order]:
        """All of them, in their order; the same each time."""
        chance = random.Random(self.seed)
        countries, of_hundred = list(COUNTRIES), list(COUNTRIES.values())
        items, shares = list(PRICES_CENTS), [share for _, share in PRICES_CENTS.values()]
        for first in range(0, self.count, 1000):
            numbers = range(first, min(first + 1000, self.count))
            wheres = chance.choices(countries, of_hundred, k=len(numbers))
            whats = chance.choices(items, shares, k=len(numbers))
            pieces = chance.choices(range(1, MOST_PIECES + 1), k=len(numbers))
            for number, where, what, many in zip(numbers, wheres, whats, pieces, strict=True):
                yield Order(number, where, what, PRICES_CENTS[what][0] * many, self.due_ms(number))

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Plan:
        return cls(**json.loads(path.read_text()))


@dataclass(frozen=True)
class Expected:
    """What must be there when a run is over."""

    payloads: list[bytes]
    """Of all orders: what the stream holds."""
    rows: list[tuple[int, str, str, int, int]]
    """Of the table of orders."""
    malformed: list[bytes]
    """What is no order, and so in the table of dead letters."""
    alerts: list[tuple[int, str, float]]
    """Id, item and amount of each large order."""
    revenue: dict[Window, Revenue]
    """Of closed windows. A window is closed, and then in the table, when an order has come that is later
    than its end by the watermark's delay; the last ones stay open."""
    open_windows: int


def expected(plan: Plan) -> Expected:
    payloads, rows, malformed, alerts = [], [], [], []
    revenue: dict[Window, Revenue] = {}
    for order in plan.orders():
        payloads.append(order.payload)
        if order.is_malformed:
            malformed.append(order.payload)
            continue
        rows.append(order.row)
        if order.cents >= LARGE_CENTS:
            alerts.append((order.id, order.item, order.cents / 100))
        row = revenue.setdefault(Window(window_of(order.time_ms), order.country), Revenue())
        row.orders += 1
        row.cents += order.cents
    latest = next(number for number in range(plan.count - 1, -1, -1) if not is_malformed(number))
    watermark = plan.due_ms(latest) - WATERMARK_SECONDS * 1000
    closed = {at: row for at, row in revenue.items() if at.start_ms + WINDOW_SECONDS * 1000 <= watermark}
    still_open = len({at.start_ms for at in revenue} - {at.start_ms for at in closed})
    return Expected(payloads, rows, malformed, alerts, closed, still_open)


def is_malformed(number: int) -> bool:
    return number % MALFORMED_EVERY == MALFORMED_EVERY // 2


def window_of(time_ms: int) -> int:
    return time_ms - time_ms % (WINDOW_SECONDS * 1000)
