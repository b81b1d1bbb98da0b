"""`make test-delayed` runs pytest with the library, and returns what it returns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("outcome", "code"), [("True", 0), ("False", 1)])
def test_pytest_runs_with_the_library(tmp_path: Path, outcome: str, code: int) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        "from pathlib import Path\n\ndef test_it():\n"
        f"    assert ('delays.so' in Path('/proc/self/maps').read_text()) is {outcome}\n"
    )
    command = [sys.executable, "-m", "tests.delays", "-q", "-p", "no:cacheprovider", str(test)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == code, run.stdout + run.stderr
