"""Runs tests while system calls return late and threads begin late.

    python -m tests.delays [arguments of pytest]

It finds what depends on who is faster, in tests and in the server, before a busy machine does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.adversity.preload import compile_library

SOURCE = Path(__file__).with_name("delays.c")


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="headrace-delays-") as directory:
        library = compile_library(Path(directory), "delays", SOURCE.read_text())
        environment = {**os.environ, "LD_PRELOAD": str(library)}
        return subprocess.run([sys.executable, "-m", "pytest", *arguments], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
