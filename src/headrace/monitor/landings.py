"""What landing queries report: how far each has copied a stream into its table.

A query that lands a stream publishes a small JSON message after each batch, and every few seconds while it
runs (spark/landing_report.py sends them), to `$HEADRACE.LANDING.<stream>` of its account. Anybody who may
publish there can forge one, so a report is checked, and what all of them together may cost is limited:

    a report       MAX_REPORT_BYTES, texts without control characters
    an account     REPORTS_PER_SECOND; what is more is dropped unread
    the server     MAX_REPORTS; a new one then takes the place of one that has been silent for longest, or, if
                   its account has fewer than another, of one of that account; otherwise it is left out.
                   So nobody can push out the queries of its own account that report regularly.
    in time        a query that does not report for three intervals is silent, and forgotten after a day
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

from headrace.accounts.account import Account
from headrace.broker.broker import Broker
from headrace.engine.core.interest import Interest
from headrace.engine.core.sinks import Inbox, InboxMessage
from headrace.unreadable import UNREADABLE_JSON

SUBJECT_PREFIX = b"$HEADRACE.LANDING."
MAX_REPORT_BYTES = 4096
REPORTS_PER_SECOND = 200
MAX_REPORTS = 1000
SILENT_INTERVALS = 3
FORGOTTEN_SECONDS = 24 * 3600.0
LONGEST_SILENCE_SECONDS = 300.0
"""After it a report gives way to another if there is no room, however long the interval that it claims."""

State = Literal["running", "stopped", "failed", "silent"]
_PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=_PRINTABLE)]
_Path = Annotated[str, msgspec.Meta(min_length=1, max_length=1024, pattern=_PRINTABLE)]
_Short = Annotated[str, msgspec.Meta(max_length=64, pattern=_PRINTABLE)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Rate = Annotated[float, msgspec.Meta(ge=0, le=1e15)]
_Interval = Annotated[float, msgspec.Meta(ge=0.1, le=86_400)]


class LandingReport(msgspec.Struct, frozen=True, kw_only=True):
    """As it is sent; of a query that has become silent, `state` says so."""

    id: _Name
    stream: _Name
    table: _Path
    format: _Short = ""
    state: State = "running"
    seq: _Count
    """The last sequence of the stream that is in the table."""
    batch: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] = -1
    rows: _Count = 0
    """Landed by this query since it was started, and so are deletions and dead letters."""
    rows_per_second: _Rate = 0.0
    deletions: _Count = 0
    """Of keys; a query of an earlier version counts them as rows."""
    dead_letters: _Count = 0
    every: _Interval = 10.0
    """Seconds until the next report at the latest."""
    time: _Short = ""


class Received(msgspec.Struct):
    report: LandingReport
    at: float
    """By the clock of Landings, which nobody can set."""


class AccountLandings:
    """The reports of one account, those that have not been renewed for longest first.

    `make_room` says whether a report of a new query can be kept.
    """

    def __init__(
        self,
        broker: Broker,
        account: Account,
        now: Callable[[], float],
        make_room: Callable[[AccountLandings, LandingReport], bool],
    ) -> None:
        self.name = account.name
        self.interest: Interest = account.interest
        self.reports: OrderedDict[tuple[str, str], Received] = OrderedDict()
        self._now = now
        self._make_room = make_room
        self._second = 0
        self._counted = 0
        self._inbox = Inbox(broker.hub, account.interest, self._receive)
        self._inbox.subscribe(SUBJECT_PREFIX + b"*", None, b"1")

    def close(self) -> None:
        self._inbox.unsubscribe_all()

    def _receive(self, messages: list[InboxMessage]) -> None:
        now = self._now()
        if int(now) != self._second:
            self._second, self._counted = int(now), 0
        allowed = max(REPORTS_PER_SECOND - self._counted, 0)
        self._counted += len(messages)
        for message in messages[:allowed]:
            report = read_report(message.subject, message.payload)
            if report is not None:
                key = report.id, report.stream
                if key in self.reports or self._make_room(self, report):
                    self.reports[key] = Received(report, now)
                    self.reports.move_to_end(key)

    def forget_old(self) -> None:
        oldest = self._now() - FORGOTTEN_SECONDS
        while self.reports and next(iter(self.reports.values())).at < oldest:
            self.reports.popitem(last=False)

    def drop_silent(self) -> bool:
        """Drop the one that has not been renewed for longest, if it is silent."""
        if not self.reports:
            return False
        oldest = next(iter(self.reports.values()))
        if self._now() - oldest.at <= _silence(oldest.report):
            return False
        self.reports.popitem(last=False)
        return True

    def current(self) -> list[tuple[LandingReport, float]]:
        """As they are now, and how many seconds ago each came."""
        now = self._now()
        return [(_with_silence(received, now), now - received.at) for received in self.reports.values()]


class Landings:
    """The newest report of each query and stream, of all accounts that have streams.

    `update` follows changed accounts; `now` is a clock in seconds that nobody can set.
    """

    def __init__(self, broker: Broker, now: Callable[[], float] = time.monotonic) -> None:
        self._broker = broker
        self._now = now
        self._accounts: dict[str, AccountLandings] = {}
        self._left_out: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        """Queries for which there is no room, and until when that is worth mentioning."""
        broker.accounts.listeners.append(self._follow)
        self.update()

    def update(self) -> None:
        """Listen in the accounts that there are now."""
        for name in [name for name in self._accounts if self._broker.accounts.get(name) is None]:
            self._accounts.pop(name).close()
        for account in self._broker.accounts:
            self._follow(account)

    def _follow(self, account: Account) -> None:
        """One that is new, or has changed."""
        name, system = account.name, self._broker.accounts.system_name
        has_streams = account.options.jetstream is not None and name != system
        known = self._accounts.get(name)
        if known is not None and not (has_streams and known.interest is account.interest):
            self._accounts.pop(name).close()
        if has_streams and name not in self._accounts:
            self._accounts[name] = AccountLandings(self._broker, account, self._now, self._make_room)

    def of(self, account: str) -> list[LandingReport]:
        """Those of one account."""
        self._forget()
        found = self._accounts.get(account)
        return [report for report, _ in found.current()] if found else []

    def all(self) -> list[tuple[str, LandingReport]]:
        """Those of all accounts, with the account's name."""
        return [(name, report) for name, report, _ in self.all_with_age()]

    def all_with_age(self) -> list[tuple[str, LandingReport, float]]:
        """The same, and how many seconds ago each report came."""
        self._forget()
        return [(name, *found) for name, account in self._accounts.items() for found in account.current()]

    @property
    def left_out(self) -> int:
        """How many queries report for which there is no room: at most MAX_REPORTS are counted."""
        now = self._now()
        for key in [key for key, until in self._left_out.items() if until < now]:
            del self._left_out[key]
        return len(self._left_out)

    def _forget(self) -> None:
        for account in self._accounts.values():
            account.forget_old()

    def _make_room(self, asking: AccountLandings, report: LandingReport) -> bool:
        key = asking.name, report.id, report.stream
        if self._has_room(asking):
            self._left_out.pop(key, None)
            return True
        self._left_out[key] = self._now() + _silence(report)
        self._left_out.move_to_end(key)
        if len(self._left_out) > MAX_REPORTS:
            self._left_out.popitem(last=False)
        return False

    def _has_room(self, asking: AccountLandings) -> bool:
        """Or makes it."""
        accounts = self._accounts.values()
        if sum(len(account.reports) for account in accounts) < MAX_REPORTS:
            return True
        largest = max(accounts, key=lambda account: len(account.reports))
        if largest.drop_silent() or asking.drop_silent():
            return True
        if len(largest.reports) <= len(asking.reports) + 1:
            return False
        largest.reports.popitem(last=False)
        return True


def read_report(subject: bytes, payload: bytes) -> LandingReport | None:
    """None if it is not a valid report on the stream that the subject names."""
    if len(payload) > MAX_REPORT_BYTES:
        return None
    try:
        report = msgspec.json.decode(payload, type=LandingReport)
        is_about_it = subject == SUBJECT_PREFIX + report.stream.encode()
    except UNREADABLE_JSON:
        return None
    return report if is_about_it and report.state != "silent" else None


def _silence(report: LandingReport) -> float:
    """Seconds without a report after which it has no right to its place any more."""
    return min(SILENT_INTERVALS * report.every, LONGEST_SILENCE_SECONDS)


def _with_silence(received: Received, now: float) -> LandingReport:
    report = received.report
    if report.state == "running" and now - received.at > SILENT_INTERVALS * report.every:
        return msgspec.structs.replace(report, state="silent")
    return report
