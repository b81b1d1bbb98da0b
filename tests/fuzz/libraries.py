"""Small libraries in C that fuzzing needs, built once with the compiler that builds the engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

HERE = Path(__file__).parent
BUILT = HERE.parents[1] / "build" / "fuzz"


def compiler() -> str:
    """Python's own, or cc."""
    own: str = (sysconfig.get_config_var("CC") or "cc").split()[0]
    return own if shutil.which(own) else "cc"


def library(name: str) -> Path:
    """The path of lib<name>.so, made of <name>.c if that is newer."""
    source, made = HERE / f"{name}.c", BUILT / f"lib{name}.so"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        BUILT.mkdir(parents=True, exist_ok=True)
        temporary = made.with_suffix(f".{os.getpid()}")
        # Without the sanitizers that the fuzzer may have preloaded.
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        command = [compiler(), "-O2", "-shared", "-fPIC", "-o", temporary, source]
        subprocess.run(command, check=True, env=environment)
        os.replace(temporary, made)
    return made
