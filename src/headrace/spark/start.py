"""Starts streaming queries one after another.

For each query Spark starts a Python process that asks our source for offsets, and gives it 10 seconds to
connect, which cannot be configured. Several of them at once, while Java is still warming up, may take longer
on a small machine, and the query fails before it has begun. So one is up before the next is started, and one
that failed in this way is restarted: nothing has happened yet.

A query with our sink needs such a process for every batch, so a busy moment can end it later, too. That
failure looks the same, but then a batch has begun, and it is for the caller to count it and to restart the
query (see `recovery`). What Spark says about the state of the query tells the two apart: polling its status
does not, because on a busy machine a query may be over at the first look.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ATTEMPTS = 5
POLL_SECONDS = 0.05

TOO_LATE = "Python worker failed to connect back"
STARTING = "Initializing sources"
NOT_BEGUN = "Current State: INITIALIZING"
"""Spark describes a failing query like this until its sources exist."""


def start_query(writer: DataStreamWriter) -> StreamingQuery:
    """The query, when it is up; by then it may have failed for other reasons."""
    for attempt in range(ATTEMPTS):
        query = writer.start()
        while query.isActive and query.status["message"] == STARTING:
            time.sleep(POLL_SECONDS)
        if not (came_too_late(query) and NOT_BEGUN in str(query.exception())) or attempt == ATTEMPTS - 1:
            break
    return query


def came_too_late(query: StreamingQuery) -> bool:
    """Whether it ended because a Python process did not start within Spark's 10 seconds."""
    failure = None if query.isActive else query.exception()
    return failure is not None and TOO_LATE in str(failure)
