"""Builds the compiled parts. Everything else about the package is in pyproject.toml.

Three environment variables ask for another build than the fast one:

    HEADRACE_ENGINE_DEBUG=1      bounds checks, asserts and counts of lines that ran (`make test-debug`)
    HEADRACE_ENGINE_SANITIZE=1   AddressSanitizer, UndefinedBehaviorSanitizer, asserts (`make test-sanitized`)
    HEADRACE_ENGINE_FUZZ=1       the same, and it tells a fuzzer which code an input reached (`make fuzz`)
"""

import os
from dataclasses import dataclass
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CORES = os.cpu_count() or 1
SOURCES = sorted(Path("src/headrace").rglob("*.pyx"))

if not SOURCES:
    # A package without its engine would install, and fail when it is first used.
    raise SystemExit("headrace cannot be built: its compiled sources (src/headrace/**/*.pyx) are missing")


@dataclass(frozen=True)
class Build:
    """How the engine is compiled, and where what is made on the way goes: builds share nothing."""

    directory: str
    compile_arguments: list[str]
    macros: list[tuple[str, str]]
    link_arguments: tuple[str, ...] = ()
    checks: bool = False
    is_numbered: bool = False  # each module knows its number, for tests/fuzz/trace.h


# Python's own flags have -fwrapv, which would hide overflows of signed integers.
SANITIZE = "-O1 -g1 -UNDEBUG -fno-wrapv -fno-omit-frame-pointer -fsanitize=address,undefined"
COVERAGE = "-fsanitize-coverage=trace-pc,trace-cmp -include tests/fuzz/trace.h"
BUILDS = {
    # Without -g, which Python's own flags have, compiling takes half the time.
    "fast": Build("build", ["-O3", "-g0", "-DNDEBUG"], [("CYTHON_WITHOUT_ASSERTIONS", "1")]),
    # Lines are counted by gcov and not by Cython's line tracing: it also sees threads that Python does not
    # know, costs a fraction, and every process that ends adds to the same files (tests/compiled_coverage.py).
    "debug": Build(
        "build/base-debug",
        ["-O0", "-g0", "-UNDEBUG", "--coverage"],
        [],
        ("--coverage",),
        checks=True,
    ),
    # What is undefined traps, and AddressSanitizer reports the signal. GCC's library for messages is not
    # used: it can only write to stderr, which tests capture.
    "sanitize": Build(
        "build/base-sanitized",
        [*SANITIZE.split(), "-fsanitize-undefined-trap-on-error"],
        [],
        ("-fsanitize=address",),
    ),
    # Not linked to a runtime of the sanitizers: it gets the fuzzer's, which has both.
    "fuzz": Build("build/base-fuzz", f"{SANITIZE} {COVERAGE}".split(), [], is_numbered=True),
}


def chosen_build() -> Build:
    """The one that the environment asks for."""
    for name in ("debug", "sanitize", "fuzz"):
        if os.environ.get(f"HEADRACE_ENGINE_{name.upper()}") == "1":
            return BUILDS[name]
    return BUILDS["fast"]


build = chosen_build()
directives = {
    "language_level": 3,
    "boundscheck": build.checks,
    "wraparound": False,
    "initializedcheck": build.checks,
    "nonecheck": build.checks,
    "cdivision": True,
    "freethreading_compatible": False,
}
extensions = [
    Extension(
        ".".join(source.relative_to("src").with_suffix("").parts),
        [str(source)],
        extra_compile_args=build.compile_arguments,
        extra_link_args=list(build.link_arguments),
        define_macros=build.macros + [("HEADRACE_MODULE", str(number))] * build.is_numbered,
    )
    for number, source in enumerate(SOURCES)
]


class BuildEngine(build_ext):
    """Has Cython translate the sources when they are compiled; a source distribution needs no C."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = CORES  # as an option of setup() it would not reach an editable install

    def run(self):
        translated = cythonize(
            self.extensions,
            compiler_directives=directives,
            build_dir=f"{build.directory}/cython",
            nthreads=CORES,
        )
        for extension, made in zip(self.extensions, translated, strict=True):
            extension.sources, extension.depends = made.sources, made.depends
        super().run()


setup(
    ext_modules=extensions,
    cmdclass={"build_ext": BuildEngine},
    options={"build": {"build_base": build.directory}},
)
