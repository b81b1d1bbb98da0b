"""A tiny HTTP client for tests, so that they see status, headers and body as they came."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import h11
from nats.aio.client import Client

from tests.clients import PATIENCE_SECONDS, flush


@dataclass(frozen=True)
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def fetch(port: int, target: str, *, method: str = "GET", accept: str = "") -> Response:
    """One request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    more = f"Accept: {accept}\r\n" if accept else ""
    try:
        head = f"{method} {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{more}\r\n"
        writer.write(head.encode())
        return await read_response(reader, method=method)
    finally:
        writer.close()
        await writer.wait_closed()


async def leave(port: int, client: Client) -> None:
    """Close a client of the server with this monitoring port, after it has read all that the server sent it.

    nats-server sends INFO once more after it has answered a client's first PING. Who closes before that is
    remembered with bytes pending, or for an error of reading.
    """
    await flush(client)
    while any(each["pending_bytes"] for each in (await fetch(port, "/connz")).json["connections"]):
        await asyncio.sleep(0.01)
    await client.close()


async def differing(
    targets: Iterable[str], ask_both: Callable[[str], Awaitable[tuple[Any, Any]]]
) -> dict[str, tuple[Any, Any]]:
    """What two servers answer differently, by target.

    nats-server answers before it has counted a request, taken off the bytes that it has written, or noted
    what it stored. A target is asked again until both answers agree, for a while in all.
    """
    ends = time.monotonic() + PATIENCE_SECONDS
    found: dict[str, tuple[Any, Any]] = {}
    for target in targets:
        expected, actual = await ask_both(target)
        while expected != actual and time.monotonic() < ends:
            await asyncio.sleep(0.02)
            expected, actual = await ask_both(target)
        if expected != actual:
            found[target] = expected, actual
    return found


async def read_response(
    reader: asyncio.StreamReader, *, method: str = "GET", rest: bytearray | None = None
) -> Response:
    """`rest` keeps what has come of the next one, where answers follow each other."""
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method=method, target="/", headers=[("Host", "test")]))
    http.send(h11.EndOfMessage())
    response: h11.Response | None = None
    body = b""
    if rest:
        http.receive_data(bytes(rest))
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Response):
            response = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            assert response is not None
            if rest is not None:
                rest[:] = http.trailing_data[0]
            headers = {name.decode().lower(): value.decode() for name, value in response.headers}
            return Response(response.status_code, headers, body)
