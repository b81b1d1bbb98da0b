"""Landing tables: how far each is behind its stream, how fast it grows, and what did not fit.

The queries report that themselves (monitor/landings.py); the lag is counted from the stream, if it is here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.monitor.console.asking import Asking, Document

if TYPE_CHECKING:
    from headrace.monitor.landings import LandingReport


async def show_tables(ask: Asking) -> Document:
    ask.viewer.check_publish("$JS.API.STREAM.LIST")  # it names streams, and how long they are
    landings, wanted = ask.context.landings, ask.text("filter").lower()
    rows: list[Document] = []
    for account in ask.accounts() if landings else ():
        assert landings is not None
        rows += [
            describe_table(ask, account.name, report)
            for report in landings.of(account.name)
            if wanted in report.table.lower() or wanted in report.stream.lower()
        ]
    rows.sort(key=lambda row: (row["table"], row["id"]))
    offset, limit = ask.page()
    return {
        "now": int(time.time() * 1000),
        "total": len(rows),
        "offset": offset,
        "limit": limit,
        "tables": rows[offset : offset + limit],
    }


def describe_table(ask: Asking, account: str, report: LandingReport) -> Document:
    jetstream = ask.context.jetstream
    owner = jetstream.accounts.get(account) if jetstream else None
    stream = owner.streams.get(report.stream) if owner else None
    return {
        "account": account,
        "id": report.id,
        "stream": report.stream,
        "is_here": stream is not None,
        "table": report.table,
        "format": report.format,
        "state": report.state,
        "seq": str(report.seq),
        "lag": max(stream.log.last_seq - report.seq, 0) if stream else None,
        "batch": report.batch,
        "rows": report.rows,
        "rows_per_second": report.rows_per_second,
        "deletions": report.deletions,
        "dead_letters": report.dead_letters,
        "time": report.time,
    }
