"""All that the page shows: samples over time, faults, findings and counts."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.soak.findings import KINDS


@dataclass(frozen=True)
class Sample:
    second: float
    memory_bytes: float
    descriptors: float
    threads: float
    store_bytes: float
    acknowledged: float
    delivered: float
    checked: float


@dataclass(frozen=True)
class Fault:
    name: str
    start: float
    end: float


@dataclass(frozen=True)
class Finding:
    second: float
    who: str
    kind: str
    text: str


@dataclass
class Record:
    seed: int
    began: float = field(default_factory=time.monotonic)
    samples: list[Sample] = field(default_factory=list)
    latencies: dict[str, list[tuple[float, float]]] = field(
        default_factory=lambda: {"request": [], "publish": []}
    )
    faults: list[Fault] = field(default_factory=list)
    checks: list[float] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    lives: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def second(self) -> float:
        return time.monotonic() - self.began

    def hear(self, who: str, news: dict[str, Any]) -> None:
        for kind, text in news["findings"]:
            self.findings.append(Finding(self.second, who, kind, text))
        for moment, what, seconds in news["samples"]:
            self.latencies[what].append((moment - self.began, seconds))

    @property
    def wrong(self) -> int:
        return sum(self.found[kind] for kind in KINDS)
