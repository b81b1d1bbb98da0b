"""The log when things go wrong: killed at any moment, full disks, failing syncs; each in its own process."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.store.fault_library import compile_library
from tests.engine.store.log_under_faults import check_recovered
from tests.sanitizers import PATIENCE, behind_them

HERE = Path(__file__).parent
KILLS = 10


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_library(tmp_path_factory.mktemp("faults"))


def command(scenario: str, directory: Path) -> list[str]:
    return [sys.executable, "-m", "tests.engine.store.log_under_faults", scenario, str(directory)]


def environment(library: Path | None = None) -> dict[str, str]:
    preload = {"LD_PRELOAD": behind_them(library)} if library else {}
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(HERE.parents[2])]), **preload}


@pytest.mark.parametrize(
    "scenario",
    [
        "sync_fails",
        "write_fails",
        "short_writes",
        "file_too_large",
        "full_while_compressing",
        "killed_everywhere",
        "killed_while_compressing",
    ],
)
def test_the_log_survives(scenario: str, library: Path, quick_path: Path) -> None:
    done = subprocess.run(
        command(scenario, quick_path / "log"),
        env=environment(library),
        capture_output=True,
        text=True,
        timeout=150 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)


def test_a_full_disk(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=4m none {tmp_path}"
    if (
        os.getuid() != 0
        or subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode
    ):
        pytest.skip("needs to be root, and to be allowed to mount")
    python = " ".join(command("small_disk", tmp_path))
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} && {python}"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=150 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)


@pytest.mark.parametrize("seed", range(KILLS))
def test_nothing_acknowledged_is_lost_when_the_writer_is_killed(tmp_path: Path, seed: int) -> None:
    wanted = random.Random(seed).randrange(1, 120)
    with subprocess.Popen(
        command("write_forever", tmp_path / "log"), env=environment(), stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for _ in range(wanted):
            acknowledged = writer.stdout.readline()
        writer.kill()
        rest = writer.stdout.read().splitlines(keepends=True)
    if rest and rest[-1].endswith("\n"):
        acknowledged = rest[-1]
    check_recovered(str(tmp_path / "log"), int(acknowledged), 200)
