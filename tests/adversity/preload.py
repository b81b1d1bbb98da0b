"""Libraries between a server and the system (LD_PRELOAD), compiled for a test."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def compile_library(directory: Path, name: str, source: str) -> Path:
    code, library = directory / f"{name}.c", directory / f"{name}.so"
    code.write_text(source)
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(code), "-ldl"], check=True)
    return library
