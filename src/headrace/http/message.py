"""A request, and what answers it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from http import HTTPStatus

import msgspec

JSON = "application/json"
HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"

Headers = tuple[tuple[str, str], ...]


class BadRequest(Exception):
    """A request that cannot be read to its end: its answer is this status, and it is the last."""

    def __init__(self, status: HTTPStatus, text: str = "") -> None:
        super().__init__(text or status.phrase.lower())
        self.status = status


class Request(msgspec.Struct, frozen=True):
    """A request whose body has not been read yet. Header names are in lower case, and may come again."""

    method: str
    target: str  # as it was sent
    headers: Headers = ()
    peer: str = ""  # the address of the other side
    is_secure: bool = False
    read: Callable[[int], AsyncIterator[bytes]] | None = None

    @property
    def path(self) -> str:
        """Not decoded."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    def header(self, name: str) -> str:
        """Its last value, or nothing."""
        return next((value for found, value in reversed(self.headers) if found == name), "")

    async def chunks(self, max_bytes: int) -> AsyncIterator[bytes]:
        """The body as it comes. Raises BadRequest if it is longer, too slow or not HTTP."""
        if self.read is not None:
            async for chunk in self.read(max_bytes):
                yield chunk

    async def body(self, max_bytes: int) -> bytes:
        """The whole body. Raises as `chunks` does."""
        return b"".join([chunk async for chunk in self.chunks(max_bytes)])


class Answer(msgspec.Struct, frozen=True):
    """A response. Its body may be made while it is sent.

    An empty fragment ends a turn of the event loop. The fragments of an asynchronous body are sent as they
    come, without waiting for more; it is closed when the last one has left, or the peer has.
    """

    body: Iterable[bytes] | AsyncGenerator[bytes, None]
    content_type: str = JSON
    status: int = 200
    headers: Headers = ()


def answer_text(status: int, text: str, headers: Headers = ()) -> Answer:
    return Answer([text.encode("utf-8", "surrogateescape")], TEXT, status, headers)


def answer_status(status: HTTPStatus, headers: Headers = ()) -> Answer:
    return answer_text(status, f"{status.value} {status.phrase.lower()}\n", headers)
