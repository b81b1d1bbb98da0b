"""The table of operations. Each prepares what it needs and yields; the operation itself follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.stalls.asker import Asker
from headrace.client.addresses import Address


class Ports(NamedTuple):
    client: Address
    monitor: Address


Operation = Callable[[Asker, int, Ports], Iterator[None]]
OPERATIONS: dict[str, Operation] = {}


def operation(name: str) -> Callable[[Operation], Operation]:
    def add(function: Operation) -> Operation:
        OPERATIONS[name] = function
        return function

    return add
