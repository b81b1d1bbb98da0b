"""Runs tests with the sanitized build of the engine: python -m tests.sanitizers [arguments of pytest]

AddressSanitizer is preloaded into pytest and, through the environment, into every process that a test
starts. It sees what Python itself allocates, too (PYTHONMALLOC), because much of what the engine reads are
Python's bytes. What UndefinedBehaviorSanitizer finds traps, and is reported as that signal with its place.

A report aborts its process. In a server that a test started this may look like the crash that the test
wanted; so reports are files in one directory, and each test fails if there are more of them than before
(`unseen_reports`, in conftest.py). Leaks are looked for when a process ends. CPython leaks, and so do
compilers: only what the engine allocated counts.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "sanitized"
REPORTS = BUILD / "reports"
WATCHED = "HEADRACE_SANITIZER_REPORTS"
ARE_AT_WORK = WATCHED in os.environ
PATIENCE = 20 if ARE_AT_WORK else 1
"""How many times longer than usual a test, and a process that it started, may take."""
OPTIONS = (
    "abort_on_error=1",
    "exitcode=0",  # of a process that only leaked
    "detect_leaks=1",
    "detect_stack_use_after_return=1",
    "handle_sigill=1",  # what UndefinedBehaviorSanitizer traps with
    "allocator_may_return_null=1",
    f"log_path={REPORTS}/report",
)
LEAK = re.compile(r"(?:Direct|Indirect) leak of .*?\n\n", re.DOTALL)
ENGINE = "headrace/engine/"
TRACED = "LeakSanitizer does not work under ptrace"  # a test traces a server with strace


def preloaded() -> str:
    """The path of AddressSanitizer's library. Raises FileNotFoundError with a line for the human."""
    compiler = os.environ.get("CC", "gcc").split()[-1]
    if shutil.which(compiler) is None:
        raise FileNotFoundError(f"{compiler} is missing: the sanitizers need GCC")
    command = [compiler, "-print-file-name=libasan.so"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(path):
        raise FileNotFoundError(
            f"{compiler} has no libasan.so: install the package that has it (libasan, or gcc's own)"
        )
    return os.path.realpath(path)


def behind_them(library: Path) -> str:
    """LD_PRELOAD with one library more; the sanitizers, if there are any, have to come first."""
    return f"{os.environ.get('LD_PRELOAD', '')} {library}".strip()


def environment() -> dict[str, str]:
    return {
        **os.environ,
        WATCHED: str(REPORTS),
        "LD_PRELOAD": preloaded(),
        "PYTHONPATH": os.pathsep.join([str(BUILD), str(ROOT)]),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": ":".join(OPTIONS),
    }


def matters(report: str) -> bool:
    """Whether it is anything but leaks of others, or that leaks of a traced process cannot be found."""
    if TRACED in report:
        return False
    if "ERROR: LeakSanitizer" not in report:
        return bool(report.strip())
    return any(ENGINE in leak for leak in LEAK.findall(report))


def reports() -> dict[str, str]:
    """Those that matter, by the names of their files; none if no sanitizer is at work."""
    directory = os.environ.get(WATCHED)
    if directory is None:
        return {}
    found = {path.name: path.read_text(errors="replace") for path in Path(directory).iterdir()}
    return {name: report for name, report in found.items() if matters(report)}


def main(arguments: list[str]) -> int:
    try:
        variables = environment()
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments == ["--check"]:
        return 0
    shutil.rmtree(REPORTS, ignore_errors=True)
    REPORTS.mkdir(parents=True)
    command = [sys.executable, "-m", "pytest", "-q", "--timeout=900", "-p", "no:cacheprovider", *arguments]
    result = subprocess.run(command, env=variables, cwd=ROOT, check=False).returncode
    os.environ[WATCHED] = str(REPORTS)
    for name, report in reports().items():
        print(f"\n{REPORTS / name}:\n{report[:4000]}", file=sys.stderr)
        result = result or 1
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
