"""Servers for the commands: every test that takes `url` runs against headrace and against nats-server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import running_server

KINDS = ("headrace", "nats-server")


@pytest.fixture(scope="module", params=KINDS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with running_server(request.param) as server:
        yield f"nats://{server.host}:{server.port}"
