"""A browser's side of the console's HTTP, without a browser: cookies, the token, and headers as given."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from headrace.server import Server
from tests.chromium import Tab, open_tab, running_chromium
from tests.monitor.conftest import Starter


class Visitor:
    """One browser profile at one server."""

    def __init__(self, server: Server, client: aiohttp.ClientSession) -> None:
        assert server.monitor is not None
        self.server = server
        self.base = f"http://127.0.0.1:{server.monitor.port}/console"
        self.client = client
        self.token = ""

    async def get(self, path: str, **options: Any) -> tuple[int, Any]:
        """Status, and the JSON of the answer."""
        async with self.client.get(f"{self.base}/api/{path}", **options) as response:
            return response.status, await response.json()

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        given = {"X-Headrace-Console": self.token, **headers}
        async with self.client.post(f"{self.base}/api/{path}", json=body, headers=given) as response:
            return response.status, await response.json()

    async def view(self, name: str, **parameters: Any) -> Any:
        """The document of a view that must be there."""
        status, document = await self.get(f"view/{name}", params=parameters)
        assert status == 200, document
        return document

    async def act(self, name: str, **body: Any) -> Any:
        """The answer to an act that must be allowed."""
        status, document = await self.post(f"act/{name}", body)
        assert status == 200, document
        return document

    async def refused(self, name: str, **body: Any) -> tuple[int, str]:
        """Status and message of an act that is not."""
        status, document = await self.post(f"act/{name}", body)
        return status, document["error"]["message"]

    async def arrive(self) -> Any:
        """Learn who we are, and the token."""
        _, session = await self.get("session")
        self.token = session.get("token", "")
        return session

    async def log_in(self, **credentials: str) -> int:
        status, session = await self.post("login", credentials)
        self.token = session.get("token", "")
        return status


Visit = Callable[[Server], Awaitable[Visitor]]


@pytest.fixture
async def visit() -> AsyncIterator[Visit]:
    """Visitors of servers, each with cookies of its own."""
    clients: list[aiohttp.ClientSession] = []

    async def open_visitor(server: Server) -> Visitor:
        clients.append(aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)))
        visitor = Visitor(server, clients[-1])
        await visitor.arrive()
        return visitor

    yield open_visitor
    for client in clients:
        await client.close()


StreamServer = Callable[..., Awaitable[Server]]


@pytest.fixture
async def streams(start: Starter, tmp_path: Path) -> StreamServer:
    async def start_server(**options: Any) -> Server:
        return await start(jetstream=True, store_dir=str(tmp_path / "store"), **options)

    return start_server


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One browser for all tests of a process."""
    with running_chromium(tmp_path_factory.mktemp("chromium")) as devtools:
        yield devtools


@pytest.fixture
async def tab(chromium: str) -> AsyncIterator[Tab]:
    """Without a leftover of other tests. At the end nothing may have gone wrong in the page."""
    async with open_tab(chromium) as tab:
        yield tab
        assert tab.errors == []


PICTURES = Path(__file__).parents[3] / "build" / "console"
