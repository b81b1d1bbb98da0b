"""What a view gets: who asks, for what, and helpers to read the parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.accounts.account import Account
from headrace.broker.broker import Broker
from headrace.go_formats import quote
from headrace.monitor.console.calls import Calls
from headrace.monitor.console.history import History
from headrace.monitor.console.refusal import bad_request, not_found
from headrace.monitor.console.viewer import Viewer
from headrace.monitor.endpoint import Context
from headrace.monitor.query import Query

if TYPE_CHECKING:
    from headrace.streams.jetstream import JetStream
    from headrace.streams.jetstream_account import JetStreamAccount
    from headrace.streams.stream import Stream

Document = dict[str, Any]

PAGE_ROWS = 50
MAX_PAGE_ROWS = 200
MAX_PARAMETER_CHARACTERS = 4096
MAX_DIGITS = 20


class Asking(msgspec.Struct, frozen=True):
    context: Context
    viewer: Viewer
    query: Query
    calls: Calls
    history: History

    @property
    def broker(self) -> Broker:
        return self.context.broker

    # -- parameters

    def text(self, name: str) -> str:
        value = self.query.get(name, "")
        if len(value) > MAX_PARAMETER_CHARACTERS:
            raise bad_request(f"{name} is too long")
        return value

    def number(self, name: str, default: int = 0, *, rule: str = "") -> int:
        """Raises Refusal, with the rule, unless it is a whole number that is not negative, of 64 bits."""
        value = self.query.get(name, "")
        if not value:
            return default
        if not value.isascii() or not value.isdigit() or len(value) > MAX_DIGITS or int(value) >= 2**64:
            raise bad_request(rule or f"{name} is not a number from 0 on")
        return int(value)

    def page(self) -> tuple[int, int]:
        """Offset and limit."""
        limit = min(max(self.number("limit", PAGE_ROWS), 1), MAX_PAGE_ROWS)
        return min(self.number("offset"), 2**40), limit

    def choice(self, name: str, choices: tuple[str, ...] | dict[str, Any]) -> str:
        """The first is the default. Raises Refusal for anything else."""
        value = self.text(name) or next(iter(choices))
        if value not in choices:
            raise bad_request(f"{name} is not one of {', '.join(choices)}")
        return value

    # -- accounts and streams

    def accounts(self) -> list[Account]:
        """The account that was asked for, or all that the viewer sees."""
        name = self.text("account")
        return [self.viewer.account(name)] if name else self.viewer.accounts()

    @property
    def jetstream(self) -> JetStream:
        """Raises Refusal if the server has none."""
        if self.context.jetstream is None:
            raise not_found("This server runs without streams (JetStream).")
        return self.context.jetstream

    def jetstream_accounts(self) -> list[JetStreamAccount]:
        """Those with streams, of the accounts that were asked for."""
        if self.context.jetstream is None:
            return []
        found = (self.context.jetstream.accounts.get(account.name) for account in self.accounts())
        return [account for account in found if account is not None and account.is_enabled]

    def jetstream_account(self) -> JetStreamAccount:
        """The one that was asked for. Raises Refusal."""
        name = self.viewer.account(self.text("account")).name
        account = self.jetstream.accounts.get(name)
        if account is None or not account.is_enabled:
            raise not_found("JetStream not enabled for account")
        return account

    def stream(self, name: str = "") -> Stream:
        """Raises Refusal."""
        name = name or self.text("stream")
        stream = self.jetstream_account().streams.get(name)
        if stream is None:
            raise not_found(f"There is no stream {quote(name)}.")
        return stream

    def streams(self) -> Iterator[Stream]:
        for account in self.jetstream_accounts():
            yield from account.streams.values()


def shown(text: bytes) -> str:
    """Peers may use any bytes in subjects; JSON may not."""
    return text.decode(errors="replace")
