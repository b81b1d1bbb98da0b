"""The CPU time of this process and of all its descendants: Java, its Python workers, servers."""

from __future__ import annotations

import os
from pathlib import Path


def family_cpu_seconds() -> float:
    """Also of those that have ended, if one of these processes waited for them."""
    return sum(_cpu_by_process().values())


def cpu_by_role(server: int | None) -> dict[str, float]:
    """Of the server with this process id, of this process, of Java and of Spark's Python processes."""
    roles: dict[str, float] = {}
    for pid, seconds in _cpu_by_process().items():
        role = "server" if pid == server else "client" if pid == os.getpid() else _program(pid)
        roles[role] = roles.get(role, 0.0) + seconds
    return roles


def _program(pid: int) -> str:
    try:
        return "Java" if Path(f"/proc/{pid}/comm").read_text().strip() == "java" else "Spark's Python"
    except OSError:
        return "Spark's Python"


def _cpu_by_process() -> dict[int, float]:
    """CPU seconds of each process, and of those that it waited for."""
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
    return {pid: ticks[pid] / os.sysconf("SC_CLK_TCK") for pid in ours}


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        if pid == os.getpid():
            return True
        pid = parents[pid]
    return False
