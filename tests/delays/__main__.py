"""Runs tests while system calls return late, threads begin late and processes stand still for seconds.

    python -m tests.delays [--seed NUMBER] [arguments of pytest]

It finds what depends on who is faster, in tests and in the server, before a busy machine does. The seed
decides how long processes stand still and which place among those that there are is chosen.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.adversity.preload import compile_library
from tests.delays.standstills import standstills

SOURCE = Path(__file__).with_name("delays.c")
LEFT_OUT = (
    "tests/delays",  # which process stands still, they decide themselves
    # Thousands of kills, one after another: most of its time it would stand still.
    "tests/engine/store/test_log_faults.py::test_the_log_survives[killed_everywhere]",
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    chosen, for_pytest = parser.parse_known_args(arguments)
    print(f"standstills: --seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="headrace-delays-") as directory:
        library = compile_library(Path(directory), "delays", SOURCE.read_text())
        environment = {**os.environ, "LD_PRELOAD": str(library)}
        left_out = [f"--deselect={name}" for name in LEFT_OUT]
        pytest = subprocess.Popen([sys.executable, "-m", "pytest", *left_out, *for_pytest], env=environment)
        with standstills(pytest.pid, chosen.seed):
            return _wait_for(pytest)


def _wait_for(pytest: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return pytest.wait()
        except KeyboardInterrupt:
            continue  # the terminal has told pytest as well, which ends its tests, servers and itself


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
