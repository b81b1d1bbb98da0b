"""Compares what is there with what must be there: every order, every alert, every window, exactly once.

Everything is re-read, from the server and, with `deltalake`, from the tables, after the pipeline has stopped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from examples.demo.orders import Expected, Window
from examples.demo.watch import ALERTS, DEAD_LETTERS, ORDERS
from headrace.client import Client


@dataclass(frozen=True)
class Check:
    """One comparison. `wrong` counts what is there and should not be, or is not as it should be."""

    name: str
    expected: int
    found: int
    lost: int
    duplicate: int
    wrong: int

    @property
    def adds_up(self) -> bool:
        return self.expected == self.found and not (self.lost or self.duplicate or self.wrong)


def reconcile(client: Client, tables: Path, expected: Expected) -> list[Check]:
    revenue = {(at, row.orders, row.cents) for at, row in expected.revenue.items()}
    orders = tables / "orders"
    return [
        compare("orders stored", expected.payloads, _payloads(client, ORDERS)),
        compare("orders landed", expected.rows, orders_in(orders)),
        compare("dead letters", expected.malformed, _rows(orders / DEAD_LETTERS).column("data").to_pylist()),
        compare("alerts received", expected.alerts, map(_alert, _payloads(client, ALERTS))),
        compare("rows of revenue", revenue, revenue_in(tables / "revenue")),
    ]


def compare(name: str, expected: Iterable[Hashable], found: Iterable[Hashable]) -> Check:
    """What is expected is there once; an altered one counts as lost, and what came instead as wrong."""
    wanted, counts = set(expected), Counter(found)
    return Check(
        name,
        expected=len(wanted),
        found=counts.total(),
        lost=len(wanted - counts.keys()),
        duplicate=sum(counts[one] - 1 for one in wanted if counts[one] > 1),
        wrong=sum(count for one, count in counts.items() if one not in wanted),
    )


def _payloads(client: Client, stream: str) -> Iterator[bytes]:
    last = client.stream_info(stream).last_seq
    for batch in client.fetch_range(stream, 1, last, headers=False) if last else ():
        yield from batch.column("data").to_pylist()


def _alert(payload: bytes) -> tuple[object, ...]:
    alert = json.loads(payload)
    return alert["id"], alert["item"], alert["amount"]


def _rows(table: Path) -> pa.Table:
    return DeltaTable(str(table)).to_pyarrow_table()


def orders_in(table: Path) -> Iterator[tuple[int, str, str, int, int]]:
    """Id, country, item, cents and milliseconds of each order."""
    rows = _rows(table)
    times = rows.column("time").cast(pa.timestamp("ms")).cast(pa.int64())
    cents = (int(amount * 100) for amount in rows.column("amount").to_pylist())
    others = (rows.column(name).to_pylist() for name in ("id", "country", "item"))
    yield from zip(*others, cents, times.to_pylist(), strict=True)


def revenue_in(table: Path) -> Iterator[tuple[Window, int, int]]:
    """Window, orders and cents of each row."""
    rows = _rows(table)
    starts = rows.column("start").cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist()
    for start, row in zip(starts, rows.drop_columns("start").to_pylist(), strict=True):
        yield Window(start, row["country"]), row["orders"], int(row["revenue"] * 100)
