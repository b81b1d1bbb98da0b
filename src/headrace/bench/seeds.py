"""The published figures of rnats and beaver, two small NATS servers in Rust, and their runs as presets.

`seeds.csv` has every figure that rnats and beaver published. They ran on other machines, so a ratio to them
shows progress, not which program is better.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Seed:
    """One published run. `rss_kb` is None if it was not published."""

    system: str
    step: str
    pubs: int
    subs: int
    msg_bytes: int
    msgs: int
    total_msgs_per_s: int
    pub_msgs_per_s: int
    sub_msgs_per_s: int
    rss_kb: int | None
    machine: str


@dataclass(frozen=True)
class Preset:
    """The shape of a run, and whose it was."""

    system: str
    publishers: int
    subscribers: int
    size: int
    messages: int


PRESETS = {
    "rnats-1x10": Preset("rnats", 1, 10, 128, 100_000),
    "rnats-10x10": Preset("rnats", 10, 10, 128, 1_000_000),
    "beaver-100": Preset("beaver", 10, 100, 1000, 100_000),
    "beaver-1000": Preset("beaver", 10, 1000, 1000, 100_000),
}


@cache
def all_seeds() -> tuple[Seed, ...]:
    text = (files("headrace.bench") / "seeds.csv").read_text(encoding="utf-8")
    return tuple(
        Seed(
            system=row["system"],
            step=row["step"],
            pubs=int(row["pubs"]),
            subs=int(row["subs"]),
            msg_bytes=int(row["msg_bytes"]),
            msgs=int(row["msgs"]),
            total_msgs_per_s=int(row["total_msgs_per_s"]),
            pub_msgs_per_s=int(row["pub_msgs_per_s"]),
            sub_msgs_per_s=int(row["sub_msgs_per_s"]),
            rss_kb=int(row["rss_kb"]) if row["rss_kb"] else None,
            machine=row["machine"],
        )
        for row in csv.DictReader(text.splitlines())
    )


def seeds_of(preset: Preset) -> list[Seed]:
    """The published figures for a run of this shape, oldest first."""
    shape = (preset.system, preset.publishers, preset.subscribers, preset.size)
    return [seed for seed in all_seeds() if (seed.system, seed.pubs, seed.subs, seed.msg_bytes) == shape]
