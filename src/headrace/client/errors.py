"""The errors between a client and a server, each in one line with a hint what to do."""

from __future__ import annotations

from headrace.errors import HeadraceError, ProtocolError, UsageError

__all__ = [
    "ApiError",
    "ConnectionFailed",
    "FetchFailed",
    "MessagesMissing",
    "NoResponders",
    "ProtocolError",
    "PublishFailed",
    "RequestTimeout",
    "StoreUnreadable",
    "StreamNotFound",
    "UsageError",
]

MESSAGE_NOT_FOUND = 10037
STREAM_NOT_FOUND = 10059


class ConnectionFailed(HeadraceError):
    """The server cannot be reached, refuses us, or has closed the connection."""


class NoResponders(HeadraceError):
    """Nobody listens to the subject of a request."""


class RequestTimeout(HeadraceError):
    """Somebody listens, but no response arrived in time."""


class ApiError(HeadraceError):
    """JetStream refused: `code` as in HTTP, `err_code` from its own table, and its `description`."""

    def __init__(self, message: str, *, code: int, err_code: int, description: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.err_code = err_code
        self.description = description


class StreamNotFound(ApiError):
    """There is no stream of that name."""


class StoreUnreadable(HeadraceError):
    """The files of a stream cannot be read here: there are none, or the operating system says no."""


class FetchFailed(HeadraceError):
    """Messages of the stream did not arrive, despite all retries."""


class MessagesMissing(HeadraceError):
    """The stream does not have the messages that were asked for (any more)."""


class PublishFailed(HeadraceError):
    """A message was refused, or it is unknown whether it was stored. `description` is the server's.

    `number` is how many messages this publisher had sent before the refused one; -1 if no single one was.
    """

    def __init__(self, message: str, *, err_code: int = 0, description: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.err_code = err_code
        self.description = description
        self.number = -1
