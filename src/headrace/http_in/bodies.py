"""The bodies of requests that are under way: all of them together may use a limited amount of memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

from headrace.http.message import BadRequest, Request

BODIES_AT_ONCE = 8
"""This many of the largest size, or more of smaller ones."""


NO_ROOM = "too many messages arrive at once; this one was not read"


class Bodies:
    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        self._room = max_body * BODIES_AT_ONCE

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """The whole body. Raises BadRequest if it is too long or too slow, or if there is no room for it."""
        chunks: list[bytes] = []
        size = 0
        try:
            async for chunk in request.chunks(self._max_body):
                if len(chunk) > self._room:
                    raise BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, NO_ROOM)
                self._room -= len(chunk)
                size += len(chunk)
                chunks.append(chunk)
            yield b"".join(chunks)
        finally:
            self._room += size
