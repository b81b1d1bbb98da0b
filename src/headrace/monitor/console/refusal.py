"""An answer that says no."""

from __future__ import annotations

from http import HTTPStatus

from headrace.errors import HeadraceError


class Refusal(HeadraceError):
    """What was asked for is not done; the page shows the message. `err_code` is that of the JetStream API."""

    def __init__(
        self, status: HTTPStatus, message: str, *, err_code: int = 0, retry_seconds: int = 0
    ) -> None:
        super().__init__(message)
        self.status = status
        self.err_code = err_code
        self.retry_seconds = retry_seconds


def bad_request(message: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, message)


def forbidden(message: str) -> Refusal:
    return Refusal(HTTPStatus.FORBIDDEN, message)


def not_found(message: str) -> Refusal:
    return Refusal(HTTPStatus.NOT_FOUND, message)
