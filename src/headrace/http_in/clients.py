"""The clients that requests use: one for each request that is under way, kept for the next one.

A client is used again only for the same credentials and the same address, byte for byte. If they lose their
validity, the broker closes it, and with that it is gone from here.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from headrace.http_in.client import PublishingClient, Refused

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

IDLE_SECONDS = 30.0
MAX_IDLE = 64
"""Where nobody needs credentials, a peer could send others each time, and use up the descriptors."""


class Clients:
    def __init__(self, broker: Broker, has_streams: Callable[[str], bool]) -> None:
        self._broker = broker
        self._has_streams = has_streams
        self._idle: dict[PublishingClient, bytes] = {}  # with the digest of their credentials; oldest first
        self._used: set[PublishingClient] = set()
        self._salt = secrets.token_bytes(16)  # no secret stays here in clear text

    @asynccontextmanager
    async def take(self, credentials: dict[str, str], host: str) -> AsyncIterator[PublishingClient]:
        """A client that is logged in with these. Raises Refused."""
        key = hashlib.sha256(self._salt + json.dumps([credentials, host]).encode()).digest()
        client = self._idle_one(key) or await self._new(credentials, host)
        self._used.add(client)
        is_whole = False
        try:
            yield client
            is_whole = client.is_unused
        finally:
            self._used.discard(client)
            if is_whole:
                self._keep(key, client)
            else:  # an answer may still come, which would be taken for that of another message
                client.close()

    async def _new(self, credentials: dict[str, str], host: str) -> PublishingClient:
        if not self._broker.is_accepting:
            raise Refused(503, "the server takes no new clients")
        client = PublishingClient(self._broker, host, self._has_streams)
        await client.connect(credentials)
        return client

    def _idle_one(self, key: bytes) -> PublishingClient | None:
        for client, its_key in list(self._idle.items()):
            if client.is_closed:
                del self._idle[client]
            elif its_key == key:
                del self._idle[client]
                return client
        return None

    def _keep(self, key: bytes, client: PublishingClient) -> None:
        if len(self._idle) >= MAX_IDLE:
            self._drop(next(iter(self._idle)))
        self._idle[client] = key
        asyncio.get_running_loop().call_later(IDLE_SECONDS, self._drop_unless_used, client, client.used)

    def _drop_unless_used(self, client: PublishingClient, used: int) -> None:
        if client in self._idle and client.used == used:
            self._drop(client)

    def _drop(self, client: PublishingClient) -> None:
        del self._idle[client]
        client.close()

    def close(self) -> None:
        for client in [*self._used, *self._idle]:
            client.close()
        self._idle.clear()
