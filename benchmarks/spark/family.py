"""The CPU time of this process and of all its descendants: Java, its Python workers, servers."""

from __future__ import annotations

import os
from pathlib import Path


def family_cpu_seconds() -> float:
    """Also of those that have ended, if one of these processes waited for them."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        pid = int(path.parent.name)
        parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    ours = [pid for pid in parents if _descends(pid, parents)]
    return sum(ticks[pid] for pid in ours) / os.sysconf("SC_CLK_TCK")


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        if pid == os.getpid():
            return True
        pid = parents[pid]
    return False
