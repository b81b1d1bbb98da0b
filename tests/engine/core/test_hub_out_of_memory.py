"""Allocations of the hub that fail, one after another; in a process that a bad pointer may end."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.sanitizers import PATIENCE

pytest.importorskip("_testcapi", reason="this Python cannot have its allocations fail")


def test_the_hub_survives_every_allocation_that_fails() -> None:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.engine.core.hub_out_of_memory"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150 * PATIENCE)
    assert done.returncode == 0, done.stderr[-2000:]
    print(done.stdout)
