"""A tiny HTTP client for tests, so that they see status, headers and body as they came."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import h11
from nats.aio.client import Client

from tests.clients import flush


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


async def read_response(reader: asyncio.StreamReader, *, method: str = "GET") -> Response:
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method=method, target="/", headers=[("Host", "test")]))
    http.send(h11.EndOfMessage())
    response: h11.Response | None = None
    body = b""
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            # Byte by byte where answers follow one another would be slow; tests read one at a time.
            http.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Response):
            response = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            assert response is not None
            headers = {name.decode().lower(): value.decode() for name, value in response.headers}
            return Response(response.status_code, headers, body)
