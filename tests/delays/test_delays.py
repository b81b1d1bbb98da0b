"""`make test-delayed` runs pytest with the library, and returns what it returns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Without plugins and their settings: what stands still for seconds should not import for seconds.
ENVIRONMENT = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def command(test: Path, *options: str) -> list[str]:
    plain = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(test.parent)]
    return [sys.executable, "-m", "tests.delays", *options, *plain, str(test)]


@pytest.mark.parametrize(("outcome", "code"), [("True", 0), ("False", 1)])
def test_pytest_runs_with_the_library(tmp_path: Path, outcome: str, code: int) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        "from pathlib import Path\n\ndef test_it():\n"
        f"    assert ('delays.so' in Path('/proc/self/maps').read_text()) is {outcome}\n"
    )
    run = subprocess.run(command(test), cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert run.returncode == code, run.stdout + run.stderr


def test_the_seed_is_printed_and_can_be_chosen(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("def test_it():\n    pass\n")
    run = subprocess.run(
        command(test, "--seed", "7"), cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert run.returncode == 0
    assert "--seed 7\n" in run.stdout


def test_lines_of_logs_are_written_late(tmp_path: Path) -> None:
    """A log takes longer than another file with as many writes, whose writes are never delayed."""
    test = tmp_path / "test_it.py"
    test.write_text(
        "import os, resource, time\n\ndef waits_for(name):\n"
        "    file = os.open(name, os.O_WRONLY | os.O_CREAT)\n"
        "    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw\n"
        "    for _ in range(200):\n        os.write(file, b'x')\n"
        "    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before\n\n"
        f"def test_it():\n    os.chdir({str(tmp_path)!r})\n"
        "    assert waits_for('server.log') > 10 > waits_for('messages')\n"
    )
    run = subprocess.run(command(test), cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
