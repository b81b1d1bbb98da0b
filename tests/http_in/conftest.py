from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import Server
from tests.http_in.streams import add_stream


@pytest.fixture
def server() -> Iterator[Server]:
    """With the stream ORDERS, on orders.>."""
    with Server(http_in={"port": -1, "headers": ["X-Source"]}) as server:
        add_stream(server.url)
        yield server
