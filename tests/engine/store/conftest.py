"""Fixtures of the store's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.engine.store.committer import Committer


@pytest.fixture(params=["threads", "no threads"])
def committer(request: pytest.FixtureRequest) -> Iterator[Committer | None]:
    made = Committer(2) if request.param == "threads" else None
    yield made
    if made is not None:
        made.close()
