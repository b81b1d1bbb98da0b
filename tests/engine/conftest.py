"""Fixtures of the engine's tests."""

from __future__ import annotations

from collections.abc import Iterator

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
