"""Runs one fuzzer in this process: python -m tests.fuzz.drive NAME [options of libFuzzer] [corpus ...]

Started by tests/fuzz/__main__.py, which prepares the environment. Python code is instrumented here, as it
is imported; compiled code was instrumented when it was built.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import atheris
from atheris.version_dependent import CMP_OP_SHIFT_AMOUNT

from tests.fuzz.libraries import extension

FAILED = 77  # as libFuzzer has it
WATCHED = {"api": ["headrace.streams", "headrace.subjects"]}
"""Packages whose branches guide a fuzzer, if not all of ours: in `api` the others do the same each time."""
COLLECTIONS = (5_000, 5, 20)  # of garbage, as seldom as in the server (runner.py)


def load(name: str) -> Callable[[bytes], None]:
    """The check of a fuzzer, with all the code that it runs instrumented."""
    with atheris.instrument_imports(include=WATCHED.get(name, ["headrace"]), enable_loader_override=False):
        target = importlib.import_module(f"tests.fuzz.targets.{name}")
    check: Callable[[bytes], None] = target.check
    return check


def hasten() -> None:
    """Once libFuzzer runs: what instrumented code calls is ours, and what was loaded is no garbage."""
    core = next(module for name, module in sys.modules.items() if "core_with" in name)
    branches = extension("branches")
    branches.connect(core.__file__, CMP_OP_SHIFT_AMOUNT)
    atheris._trace_branch = branches.trace_branch
    atheris._trace_cmp = branches.trace_cmp
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)


def reporting(check: Callable[[bytes], None], prefix: str) -> Callable[[bytes], None]:
    """The check, with an input that fails saved as libFuzzer saves one that crashes.

    Left to atheris, Python ends first, and then a report is written that takes longer than libFuzzer's alarm.
    """

    is_first = True

    def guarded(data: bytes) -> None:
        nonlocal is_first
        if is_first:
            is_first = False
            hasten()
        try:
            check(data)
        except BaseException:
            path = Path(f"{prefix}crash-{hashlib.sha1(data).hexdigest()}")
            path.write_bytes(data)
            traceback.print_exc()
            print(f"input: {data!r}\nTest unit written to {path}", file=sys.stderr, flush=True)
            os._exit(FAILED)

    return guarded


def prefix_of(arguments: list[str]) -> str:
    return next((word.partition("=")[2] for word in arguments if word.startswith("-artifact_prefix=")), "")


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    # To merge, libFuzzer starts itself again, with a shell.
    itself = f"{sys.executable} -m tests.fuzz.drive {name}"
    atheris.Setup([itself, *arguments], reporting(load(name), prefix_of(arguments)))
    atheris.Fuzz()
