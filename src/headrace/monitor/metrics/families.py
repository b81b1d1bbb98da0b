"""The metrics, in tables: their names, what they mean, and where their values come from.

All families of a table have the same labels, and a value for each of the table's objects (each stream, each
consumer, ...), or none for some of them. Names follow the rules of Prometheus: base units, `_total` (which is
added) for what only grows. docs/metrics.md lists them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, TypeVar

import msgspec

Thing = TypeVar("Thing")
Kind = Literal["gauge", "counter", "histogram", "info"]
SUFFIXES: dict[Kind, str] = {"gauge": "", "counter": "_total", "histogram": "", "info": "_info"}


class Family(msgspec.Struct, frozen=True):
    """A metric. Its unit, if it has one, is the end of its name."""

    name: str
    help: str
    kind: Kind = "gauge"

    @property
    def unit(self) -> str:
        return next((unit for unit in ("seconds", "bytes") if self.name.endswith(f"_{unit}")), "")

    @property
    def sample(self) -> str:
        """The name that its values have."""
        return self.name + SUFFIXES[self.kind]


class Column(msgspec.Struct, Generic[Thing], frozen=True):
    """A metric, and its value for an object of its table; None: it has none."""

    family: Family
    read: Callable[[Thing], float | None]


class Table(msgspec.Struct, Generic[Thing], frozen=True):
    labels: tuple[str, ...]
    values_of: Callable[[Thing], tuple[str, ...]]
    """The values of the labels of an object."""
    columns: tuple[Column[Thing], ...]


def gauge(name: str, text: str, read: Callable[[Thing], float | None]) -> Column[Thing]:
    return Column(Family(name, text), read)


def counter(name: str, text: str, read: Callable[[Thing], float | None]) -> Column[Thing]:
    return Column(Family(name, text, "counter"), read)


def info(name: str, text: str) -> Column[Thing]:
    """Always 1: what there is to know is in the labels."""
    return Column(Family(name, text, "info"), lambda _: 1)
