"""The whole API: every request that this server answers, in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.streams.api import message_requests as message_api
from headrace.streams.api import stream_requests as stream_api
from headrace.streams.api.consumer_requests import ROUTES as CONSUMER_ROUTES
from headrace.streams.api.dispatch import Request, Route
from headrace.streams.backup.requests import ROUTES as BACKUP_ROUTES
from headrace.streams.errors import api_error

if TYPE_CHECKING:
    from headrace.streams.jetstream_account import AccountInfo, JetStreamAccount


def account_info(account: JetStreamAccount, request: Request) -> AccountInfo:
    return account.info()


def refuse(account: JetStreamAccount, request: Request) -> AccountInfo:
    raise api_error("not_enabled_for_account")


ROUTES: tuple[Route, ...] = (
    Route("INFO", "account_info_response", account_info),
    *stream_api.ROUTES,
    *BACKUP_ROUTES,
    *message_api.ROUTES,
    *CONSUMER_ROUTES,
)

# For an account that may have no streams.
REFUSALS: tuple[Route, ...] = tuple(msgspec.structs.replace(route, handler=refuse) for route in ROUTES)
