"""Runs quick tests with other Pythons and PySparks: python -m tests.versions pythons|newest-python|sparks

Each other Python gets an environment and a build of its own in build/pythons/, without Spark. A PySpark is
put before the one of this environment, in build/sparks/: the oldest that pyproject.toml allows, and the
newest that the package index has, if it is newer than the one in constraints.txt.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.12", "3.13", "3.14")
"""Those beside the oldest, with which everything else is tested."""
QUICK = (
    *("tests/engine", "tests/subjects", "tests/config", "tests/broker", "tests/monitor", "tests/client"),
    *("tests/streams/origins", "tests/streams/test_recovery.py", "tests/streams/test_retention.py"),
    *("tests/test_logs.py", "tests/test_server.py", "tests/cli/test_request.py"),
)
SMOKE = (
    *("tests/spark/test_batch_read.py", "tests/spark/test_stream_read.py", "tests/spark/test_pushdown.py"),
    *("tests/spark/test_sink.py", "tests/spark/test_land.py", "tests/spark/test_connect.py"),
)
UNPINNED = {"PIP_CONSTRAINT": ""}
TOGETHER = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")


def run(*command: str | Path, **variables: str) -> int:
    print("+", *command, flush=True)
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False).returncode


def interpreter(version: str) -> str | None:
    """One on the path, or one of pyenv's: its commands on the path fail for versions that are not chosen."""
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), reverse=True)
    for candidate in (f"python{version}", *map(str, installed)):
        try:
            found = subprocess.run(
                [candidate, "--version"], capture_output=True, text=True, check=True
            ).stdout
        except (FileNotFoundError, subprocess.CalledProcessError):
            continue
        if found.startswith(f"Python {version}."):
            return candidate
    return None


def try_python(version: str, python: str) -> int:
    place = ROOT / "build" / "pythons" / version
    own = place / "bin" / "python"
    return (
        (0 if own.exists() else run(python, "-m", "venv", place))
        # Checked, and compiled in a third of the time.
        or run(own, "-m", "pip", "install", "-q", ".[test]", HEADRACE_ENGINE_DEBUG="1")
        or run(own, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TOGETHER, *QUICK)
    )


def pythons(*, is_newest_enough: bool = False) -> dict[str, int | None]:
    """The exit code by version; None where it is not installed."""
    found = {version: interpreter(version) for version in PYTHONS}
    if is_newest_enough:
        installed = [version for version, python in found.items() if python]
        found = {version: python for version, python in found.items() if version in installed[-1:]}
    return {
        f"Python {version}": None if python is None else try_python(version, python)
        for version, python in found.items()
    }


def newest(requirement: str) -> str:
    """The version that pip would install where there is none."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--no-deps"]
    report = subprocess.run(
        [*command, "--report", "-", requirement],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **UNPINNED},
    ).stdout
    return str(json.loads(report)["install"][0]["metadata"]["version"])


def try_spark(version: str, place: Path) -> int:
    """The path of PySpark comes first, also in Spark's workers: it gives them ours."""
    if version == metadata.version("pyspark"):
        print(f"PySpark {version} is that of `make test`")
        return 0
    target = ("--upgrade", "--target", place)
    install = (sys.executable, "-m", "pip", "install", "-q", *target, f"pyspark=={version}")
    smoke = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SMOKE, "-k", "not nats-server")
    return run(*install, **UNPINNED) or run(*smoke, PYTHONPATH=str(place))


def oldest_of(requirement: str) -> str:
    """Its lower bound, as a whole version."""
    bound = re.search(r">=([\d.]+)", requirement)
    assert bound, f"{requirement} has no lower bound"
    return bound[1] + ".0" * (2 - bound[1].count("."))


def sparks() -> dict[str, int | None]:
    with open(ROOT / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    (declared,) = [requirement for requirement in extras["spark"] if requirement.startswith("pyspark")]
    place = ROOT / "build" / "sparks"
    return {
        f"PySpark {version}": try_spark(version, place / version)
        for version in (oldest_of(declared), newest(declared))
    }


def main(arguments: list[str]) -> int:
    match arguments:
        case ["pythons"]:
            results = pythons()
        case ["newest-python"]:
            results = pythons(is_newest_enough=True)
        case ["sparks"]:
            results = sparks()
        case _:
            print("usage: python -m tests.versions pythons|newest-python|sparks", file=sys.stderr)
            return 2
    for name, code in results.items():
        print(f"{name}: {'not installed' if code is None else 'failed' if code else 'passed'}")
    return any(results.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
