"""The log when system calls fail: whoever asked is told, and nothing is lost. Each in its own process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.sanitizers import PATIENCE, behind_them

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("errors") / "errors.so"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        compiler = "cc"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", made, HERE / "errors.c", "-ldl"], check=True)
    return made


@pytest.mark.parametrize(
    "scenario",
    [
        "no_descriptors",
        "reads_fail",
        "directory_fails",
        "last_sync",
        "erase_on_a_full_disk",
        "erased_later",
        "failed_write",
        "first_in_first_out",
        "erasing_waits_for_no_chore",
    ],
)
def test_an_error_costs_nothing(scenario: str, library: Path, quick_path: Path) -> None:
    search = os.pathsep.join([*sys.path, str(HERE.parents[2])])
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.store.log_under_errors", scenario, str(quick_path / "log")],
        env={**os.environ, "PYTHONPATH": search, "LD_PRELOAD": behind_them(library)},
        capture_output=True,
        text=True,
        timeout=150 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
