"""The whole API: every request that this server answers, in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.streams import message_api, stream_api
from headrace.streams.account import AccountInfo
from headrace.streams.api import Request, Route
from headrace.streams.consumer_api import ROUTES as CONSUMER_ROUTES

if TYPE_CHECKING:
    from headrace.streams.jetstream import JetStream


def account_info(jetstream: JetStream, request: Request) -> AccountInfo:
    return jetstream.account.info()


ROUTES: tuple[Route, ...] = (
    Route("INFO", "account_info_response", account_info),
    *stream_api.ROUTES,
    *message_api.ROUTES,
    *CONSUMER_ROUTES,
)
