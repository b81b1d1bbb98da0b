"""Fixtures of the engine's tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.core.harness import Bench, bench


@pytest.fixture(name="bench")
def made_bench() -> Iterator[Bench]:
    """A hub with the limits of nats-server. At the end no connection may have met a bug of ours."""
    with bench() as made:
        yield made
        assert [peer.owner.bugs for peer in made.peers if peer.owner.bugs] == []


@pytest.fixture(params=["plain", "tls"])
def each_transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with clients on plain sockets, and again over TLS."""
    monkeypatch.setattr(Bench, "is_encrypted", request.param == "tls")


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A directory where a sync costs nothing, for tests that do thousands of them."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)
