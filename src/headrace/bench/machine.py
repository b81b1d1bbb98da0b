"""The machine that a benchmark ran on, without which a figure means nothing."""

import hashlib
import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace import __version__


def describe_machine() -> dict[str, str]:
    """Date, processor, cores, memory, kernel and Python, as shown above a table and saved in JSON."""
    memory_kilobytes = int(_first(r"^MemTotal:\s+(\d+) kB", "/proc/meminfo") or 0)
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": _first(r"^model name\s*:\s*(.+)$", "/proc/cpuinfo") or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory_kilobytes / 1e6:.0f} GB",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def machine_facts() -> dict[str, Any]:
    """The same for saved runs, with a short `machine` that is equal if runs can be compared."""
    facts: dict[str, Any] = {
        "cpu": _first(r"^model name\s*:\s*(.+)$", "/proc/cpuinfo") or platform.machine(),
        "cores": os.cpu_count() or 1,
        "memory_bytes": int(_first(r"^MemTotal:\s+(\d+) kB", "/proc/meminfo") or 0) * 1024,
        "kernel": platform.release(),
    }
    fingerprint = hashlib.sha256("|".join(str(fact) for fact in facts.values()).encode()).hexdigest()[:12]
    return {
        "machine": fingerprint,
        **facts,
        "python": platform.python_version(),
        "headrace_version": __version__,
    }


def filesystem_of(path: str) -> str:
    """The type of the file system of a path: on `tmpfs` nothing is ever synced to a disk."""
    best, kind = "", "an unknown file system"
    for line in _read("/proc/mounts").splitlines():
        _, place, name, *_ = line.split()
        if len(place) >= len(best) and (place == "/" or f"{path}/".startswith(f"{place}/")):
            best, kind = place, name
    return kind


def busy_seconds() -> float:
    """CPU time of all processes on all cores since the machine started, and what its host stole."""
    user, nice, system, _, _, irq, softirq, steal, *_ = map(int, _first(r"^cpu +(.+)$", "/proc/stat").split())
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _first(pattern: str, path: str) -> str:
    found = re.search(pattern, _read(path), re.MULTILINE)
    return found[1].strip() if found else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
