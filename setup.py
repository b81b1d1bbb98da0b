"""Builds the compiled parts. Everything else about the package is in pyproject.toml.

HEADRACE_ENGINE_DEBUG=1 builds them with bounds checks, line tracing and internal asserts (`make test-debug`).
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

CORES = os.cpu_count() or 1
DEBUG = os.environ.get("HEADRACE_ENGINE_DEBUG") == "1"
SOURCES = sorted(Path("src/headrace").rglob("*.pyx"))

if not SOURCES:
    # A package without its engine would install, and fail when it is first used.
    raise SystemExit("headrace cannot be built: its compiled sources (src/headrace/**/*.pyx) are missing")

directives = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "nonecheck": DEBUG,
    "cdivision": True,
    "linetrace": DEBUG,
    "freethreading_compatible": False,
}
extensions = [
    Extension(
        ".".join(source.relative_to("src").with_suffix("").parts),
        [str(source)],
        # Without -g, which Python's own flags have, compiling takes half the time.
        extra_compile_args=["-O0", "-g0", "-UNDEBUG"] if DEBUG else ["-O3", "-g0", "-DNDEBUG"],
        define_macros=[("CYTHON_TRACE_NOGIL", "1")] if DEBUG else [("CYTHON_WITHOUT_ASSERTIONS", "1")],
    )
    for source in SOURCES
]

setup(
    ext_modules=cythonize(
        extensions,
        compiler_directives=directives,
        build_dir="build/cython-debug" if DEBUG else "build/cython",
        force=DEBUG,
        nthreads=CORES,
    ),
    options={"build_ext": {"parallel": CORES}},
)
