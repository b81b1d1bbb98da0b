"""What a command costs from start to end: wall time and CPU seconds, without and with an archive of classes,
and with Python processes that import PySpark from its zip file, as they do with Spark's own home.

`python -m benchmarks.spark.start [--rounds 3] [--messages N] [--cases A;B]`

CPU is that of the command, of Java and of Spark's Python processes; on a busy machine it says more than the
time. The first run of a kind makes the archive (in a cache of this benchmark) and does not count. Commands
that end by themselves use Java's first compiler alone; C2 is with both, as a pipeline that runs for days.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.spark.work import STREAM, Place, fill
from headrace.bench.servers import find_server, running
from headrace.spark.class_archive import COMPLETE_SECONDS, DISABLE
from headrace.spark.home import package_home

SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux: what a command leaves behind becomes our child, with its CPU time."""

COLD = {DISABLE: "1"}
BOTH_COMPILERS = ", conf: {spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=4}"
CASES: dict[str, tuple[str, str, dict[str, str]]] = {
    "sql": ("sql", "", COLD),
    "sql, archive": ("sql", "", {}),
    "pipeline": ("pipeline", "", COLD),
    "pipeline, PySpark zipped": ("pipeline", "", COLD | {"SPARK_HOME": str(package_home())}),
    "pipeline, archive": ("pipeline", "", {}),
    "pipeline, C2": ("pipeline", BOTH_COMPILERS, COLD),
    "pipeline, C2, archive": ("pipeline", BOTH_COMPILERS, {}),
}
"""The command, settings in the pipeline's file, variables of the environment."""

PIPELINE = """\
server: URL
checkpoint: state
spark: {master: "local[2]"CONF}
sources:
  messages: {stream: STREAM}
sinks:
  raw: {from: messages, table: table}
"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark.start", description="What starting costs."
    )
    parser.add_argument("--rounds", type=int, default=3, help="of all cases; medians are shown (3)")
    parser.add_argument("--messages", type=int, default=100_000, help="of the stream (100,000)")
    parser.add_argument(
        "--cases", default=";".join(CASES), help=f"separated by semicolons ({'; '.join(CASES)})"
    )
    options = parser.parse_args(arguments)
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in options.cases.split(";")}
    with (
        tempfile.TemporaryDirectory(prefix="headrace-start-") as directory,
        running(find_server("headrace"), streams=True) as server,
    ):
        url = f"nats://{server.address}"
        fill(Place(None, Path(directory), options.messages, 0, url))  # type: ignore[arg-type]
        for number in range(-1, options.rounds):
            for name, seen in found.items():
                cost = measure(*CASES[name], url, Path(directory))
                if number >= 0:
                    seen.append(cost)
                print(f"{name}: {cost[0]:.1f} s, {cost[1]:.1f} CPU s", file=sys.stderr, flush=True)
            if number < 0:
                _let_time_pass(Path(directory))
    print(f"{options.messages:,} messages, {options.rounds} rounds, medians: seconds (CPU seconds)")
    for name, seen in found.items():
        wall, cpu = (statistics.median(cost[kind] for cost in seen) for kind in (0, 1))
        print(f"{name:28} {wall:6.1f} ({cpu:.1f})")
    return 0


def measure(command: str, conf: str, variables: dict[str, str], url: str, cache: Path) -> tuple[float, float]:
    """Seconds and CPU seconds of a command and of all that it started."""
    with tempfile.TemporaryDirectory(prefix="headrace-start-") as directory:
        file = Path(directory, "raw.yml")
        file.write_text(PIPELINE.replace("URL", url).replace("STREAM", STREAM).replace("CONF", conf))
        arguments = {
            "sql": ["sql", f"SELECT count(*) FROM {STREAM}", "-s", url, "--master", "local[2]"],
            "pipeline": ["pipeline", "run", str(file), "--once"],
        }[command]
        before, began = _cpu_of_ended(), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "headrace", *arguments],
            env=os.environ | {"XDG_CACHE_HOME": str(cache)} | variables,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        seconds = time.perf_counter() - began
        _wait_for_java()
        return seconds, _cpu_of_ended() - before


def _let_time_pass(cache: Path) -> None:
    """An archive is used when it has not changed for a minute."""
    for path in cache.rglob("classes/*"):
        os.utime(path, (time.time() - 2 * COMPLETE_SECONDS,) * 2)


def _cpu_of_ended() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait_for_java() -> None:
    """Java outlives the command for a moment. The server is also a child, and stays."""
    while any(_is_java(path) for path in Path("/proc").glob("[0-9]*/stat")):
        with suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        time.sleep(0.05)


def _is_java(stat: Path) -> bool:
    with suppress(OSError):
        name, _, rest = stat.read_text().rpartition(")")
        return name.endswith("(java") and int(rest.split()[1]) == os.getpid()
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
