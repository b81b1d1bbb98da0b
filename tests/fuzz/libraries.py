"""Small libraries in C that fuzzing needs, built once with the compiler that builds the engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import threading
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

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
        temporary = made.with_suffix(f".{os.getpid()}.{threading.get_ident()}")  # fuzzers start together
        # Without the sanitizers that the fuzzer may have preloaded.
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        include = f"-I{sysconfig.get_path('include')}"
        command = [compiler(), "-O2", "-shared", "-fPIC", include, "-o", temporary, source]
        subprocess.run(command, check=True, env=environment)
        os.replace(temporary, made)
    return made


def extension(name: str) -> ModuleType:
    """The same library, loaded as a module of Python."""
    path = str(library(name))
    loader = ExtensionFileLoader(name, path)
    spec = spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
