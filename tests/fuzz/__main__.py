"""Runs fuzzers, each in a process of its own: python -m tests.fuzz [NAME ...] [--runs N] [--seed N] [--plain]

With the fuzz build of the engine (`make fuzz`) libFuzzer sees which compiled code an input reaches, and AddressSanitizer
and UndefinedBehaviorSanitizer watch it. With --plain the installed engine is used, and only Python code is seen.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.libraries import BUILT, HERE, library

ROOT = HERE.parents[1]
ENGINE = BUILT / "engine"
CORPUS = HERE / "corpus"
NAMES = tuple(sorted(file.stem for file in (HERE / "targets").glob("[a-z]*.py")))
LONGEST = {"protocol": 1500, "client": 1500, "segments": 4000, "configuration": 800, "requests": 800}
MOST_SECONDS = 20  # for one input, which takes less than a millisecond; the machine may be busy
MOST_MEGABYTES = 2048
RUNS = 10_000_000
COVERAGE = re.compile(r"cov: (\d+) ft: (\d+)")


class Result(NamedTuple):
    """What came of a fuzzer: `failure` is empty, or says where the input is that did it."""

    name: str
    inputs: int
    seconds: float
    coverage: tuple[int, int]
    failure: str


def environment(*, plain: bool) -> dict[str, str]:
    """That of a fuzzer's process. Raises FileNotFoundError if the fuzz build is not there."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    if plain:
        return variables
    if not ENGINE.is_dir():
        raise FileNotFoundError(f"{ENGINE} is missing: run `make fuzz`, which builds it, or add --plain")
    import atheris

    preloaded = [Path(atheris.path(), "asan_with_fuzzer.so"), library("counters")]
    return {
        **variables,
        "PYTHONPATH": f"{ENGINE}{os.pathsep}{ROOT}",
        "LD_PRELOAD": " ".join(map(str, preloaded)),
        "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=8:allocator_may_return_null=1:handle_segv=1:abort_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:abort_on_error=1",
    }


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
        f"-rss_limit_mb={MOST_MEGABYTES}",
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
    started = time.monotonic()
    with ExitStack() as stack:
        if keep:
            grown = BUILT / "corpus" / name
            grown.mkdir(parents=True, exist_ok=True)
        else:
            grown = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-fuzz-")))
        with output.open("w") as log:
            done = subprocess.run(
                command(name, runs, seed, grown),
                env=environment(plain=plain),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                check=False,
            )
    text = output.read_text(errors="replace")
    count = re.search(r"stat::number_of_executed_units: (\d+)", text)
    coverage = COVERAGE.findall(text) or [("0", "0")]
    return Result(
        name,
        int(count[1]) if count else 0,
        time.monotonic() - started,
        (int(coverage[-1][0]), int(coverage[-1][1])),
        "" if done.returncode == 0 else f"failed with {done.returncode}: see {output}",
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="all of them if none is named")
    parser.add_argument("--runs", type=int, default=RUNS, help="inputs for each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="with the installed engine")
    options = parser.parse_args()
    failed = 0
    for name in options.names or NAMES:
        result = run(name, options.runs, options.seed, plain=options.plain, keep=True)
        edges, features = result.coverage
        speed = result.inputs / max(result.seconds, 0.001)
        print(
            f"{name:14} {result.inputs:>10,} inputs {speed:>8,.0f} a second  {edges:>6,} edges "
            f"{features:>6,} features  {result.failure or 'no failure'}",
            flush=True,
        )
        failed += bool(result.failure)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
