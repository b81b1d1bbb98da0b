"""Runs one fuzzer in this process: python -m tests.fuzz.drive NAME [options of libFuzzer] [corpus ...]

Started by tests/fuzz/__main__.py, which prepares the environment. Python code is instrumented here, as it is imported;
compiled code was instrumented when it was built.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

import atheris


def load(name: str) -> Callable[[bytes], None]:
    """The check of a fuzzer, with all the code that it runs instrumented."""
    with atheris.instrument_imports(include=["headrace"], enable_loader_override=False):
        target = importlib.import_module(f"tests.fuzz.targets.{name}")
    check: Callable[[bytes], None] = target.check
    return check


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *sys.argv[2:]], load(sys.argv[1]))
    atheris.Fuzz()
