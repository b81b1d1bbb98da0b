"""Runs fuzzers, each in a process of its own and as many at once as there are cores:

    python -m tests.fuzz [NAME ...] [--runs N] [--seed N] [--together N] [--plain]

With the fuzz build of the engine (`make fuzz`) libFuzzer sees which compiled code an input reaches, and
AddressSanitizer and UndefinedBehaviorSanitizer watch it. With --plain the installed engine is used, and
only Python code is seen.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.libraries import BUILT, HERE, library

ROOT = HERE.parents[1]
ENGINE = BUILT / "engine"
CORPUS = HERE / "corpus"
NAMES = tuple(sorted(file.stem for file in (HERE / "targets").glob("[a-z]*.py")))
LONGEST = {
    "protocol": 900,
    "websocket": 900,
    "client": 900,
    "segments": 3000,
    "archives": 900,
    "configuration": 800,
    "requests": 800,
}
PURE_PYTHON = ("configuration", "requests")  # faster where nobody watches compiled code
MOST_SECONDS = 20  # for one input, which takes less than a millisecond; the machine may be busy
MOST_MEGABYTES = 512  # a hundred are usual: ten million inputs may not leak 40 bytes each
RUNS = 10_000_000
ASAN_OPTIONS = (
    "abort_on_error=1",
    "allocator_may_return_null=1",
    "detect_leaks=0",  # CPython leaks when it ends; what leaks with every input ends in MOST_MEGABYTES
    "quarantine_size_mb=8",
    "malloc_context_size=2",  # a report says more if the input is run again with a longer one
    "max_malloc_fill_size=0",
)
COVERAGE = re.compile(r"cov: (\d+) ft: (\d+)")


class Result(NamedTuple):
    """What came of a fuzzer: `failure` is empty, or says where the input is that did it."""

    name: str
    inputs: int
    cpu_seconds: float
    coverage: tuple[int, int]
    failure: str


def environment(*, plain: bool) -> dict[str, str]:
    """That of a fuzzer's process. Raises FileNotFoundError if the fuzz build is not there."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    variables = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    if plain:
        return variables
    if not ENGINE.is_dir():
        raise FileNotFoundError(f"{ENGINE} is missing: run `make fuzz`, which builds it, or add --plain")
    import atheris

    preloaded = [Path(atheris.path(), "asan_with_fuzzer.so"), library("counters")]
    return {
        **variables,
        "PYTHONPATH": f"{ENGINE}{os.pathsep}{path}",
        "LD_PRELOAD": " ".join(map(str, preloaded)),
        "ASAN_OPTIONS": ":".join(ASAN_OPTIONS),
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:abort_on_error=1",
    }


def own_peak_megabytes() -> int:
    """Most memory that this process ever had: the system counts it for each process that it starts, too."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def command(name: str, runs: int, seed: int, grown: Path) -> list[str]:
    """`grown` is a directory that gets what libFuzzer found interesting."""
    dictionary = HERE / "dictionaries" / name
    return [
        sys.executable,
        "-m",
        "tests.fuzz.drive",
        name,
        f"-runs={runs}",
        f"-seed={seed}",
        f"-max_len={LONGEST.get(name, 400)}",
        f"-timeout={MOST_SECONDS}",
        f"-rss_limit_mb={max(MOST_MEGABYTES, own_peak_megabytes() + 1)}",
        f"-artifact_prefix={BUILT}/{name}-",
        "-print_final_stats=1",
        "-entropic=0",  # a quarter of the time of the quick fuzzers went into its statistics
        *([f"-dict={dictionary}"] if dictionary.exists() else []),
        str(grown),
        str(CORPUS / name),
    ]


def run(name: str, runs: int, seed: int, *, plain: bool, keep: bool) -> Result:
    """Run one fuzzer to its end; its output goes to build/fuzz/NAME.log."""
    BUILT.mkdir(parents=True, exist_ok=True)
    output = BUILT / f"{name}{'-plain' if plain else ''}.log"
    plain = plain or name in PURE_PYTHON
    with ExitStack() as stack:
        if keep:
            grown = BUILT / "corpus" / name
            grown.mkdir(parents=True, exist_ok=True)
        else:
            grown = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-fuzz-")))
        with output.open("w") as log:
            fuzzer = subprocess.Popen(
                command(name, runs, seed, grown),
                env=environment(plain=plain),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
            )
            _, status, usage = os.wait4(fuzzer.pid, 0)
            fuzzer.returncode = os.waitstatus_to_exitcode(status)
    text = output.read_text(errors="replace")
    count = re.search(r"stat::number_of_executed_units: (\d+)", text)
    coverage = COVERAGE.findall(text) or [("0", "0")]
    return Result(
        name,
        int(count[1]) if count else 0,
        usage.ru_utime + usage.ru_stime,
        (int(coverage[-1][0]), int(coverage[-1][1])),
        "" if fuzzer.returncode == 0 else f"failed with {fuzzer.returncode}: see {output}",
    )


def show(name: str, file: str, *, plain: bool) -> int:
    """One input again."""
    drive = [sys.executable, "-m", "tests.fuzz.drive", name, f"-timeout={MOST_SECONDS}", file]
    return subprocess.run(drive, env=environment(plain=plain), cwd=ROOT, check=False).returncode


def merge(name: str) -> int:
    """Make the corpus as small as what it reaches allows, with what long runs have found since."""
    with tempfile.TemporaryDirectory(prefix="headrace-fuzz-") as directory:
        found, merged = Path(directory, "found"), Path(directory, "merged")
        shutil.copytree(CORPUS / name, found)
        merged.mkdir()
        grown = BUILT / "corpus" / name
        for file in grown.iterdir() if grown.is_dir() else ():
            with suppress(FileNotFoundError):  # a fuzzer that runs has found a smaller one
                shutil.copy(file, found)
        drive = [sys.executable, "-m", "tests.fuzz.drive", name, "-merge=1"]
        result = subprocess.run(
            [*drive, f"-max_len={LONGEST.get(name, 400)}", str(merged), str(found)],
            env=environment(plain=name in PURE_PYTHON),
            cwd=ROOT,
            check=False,
        )
        if result.returncode == 0 and os.listdir(merged):
            shutil.rmtree(CORPUS / name)
            shutil.copytree(merged, CORPUS / name)
    return result.returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="all of them if none is named")
    parser.add_argument("--input", help="run this file, and nothing else")
    parser.add_argument("--merge", action="store_true", help="take over what was found into the corpus")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"inputs for each; {RUNS:,} if not given")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--together", type=int, default=os.cpu_count(), help="how many run at once")
    parser.add_argument("--plain", action="store_true", help="with the installed engine")
    options = parser.parse_args()
    if options.input:
        return show(options.names[0], options.input, plain=options.plain)
    if options.merge:
        return max(merge(name) for name in options.names or NAMES)

    def run_one(name: str) -> Result:
        return run(name, options.runs, options.seed, plain=options.plain, keep=True)

    failed = 0
    with ThreadPoolExecutor(options.together) as pool:
        for result in pool.map(run_one, options.names or NAMES):
            print(describe(result), flush=True)
            failed += bool(result.failure)
    return 1 if failed else 0


def describe(result: Result) -> str:
    edges, features = result.coverage
    speed = result.inputs / max(result.cpu_seconds, 0.001)
    return (
        f"{result.name:14} {result.inputs:>10,} inputs {speed:>8,.0f} per second of CPU  {edges:>6,} edges "
        f"{features:>6,} features  {result.failure or 'no failure'}"
    )


if __name__ == "__main__":
    sys.exit(main())
