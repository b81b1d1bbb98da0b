"""/metrics: who may ask for it, in which format, and how much of it."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from importlib import import_module

from headrace.http.message import Answer, Request, answer_status
from headrace.monitor.endpoint import Context
from headrace.monitor.metrics.selection import Limits
from headrace.monitor.query import Query, decode_uint64, parse_query

METHODS = ("GET", "HEAD")
PATH = "/metrics"
PAGE = "headrace.monitor.metrics.page"

_imported: set[str] = set()


async def answer_metrics(context: Context, request: Request) -> Answer:
    """Raises BadQuery."""
    if request.method not in METHODS:
        return answer_status(HTTPStatus.METHOD_NOT_ALLOWED, (("Allow", ", ".join(METHODS)),))
    context.request_counts[PATH] += 1
    limits = read_limits(parse_query(request.query))
    if PAGE not in _imported:
        # In a thread: it takes so long that clients would have to wait.
        await asyncio.to_thread(import_module, PAGE)
        _imported.add(PAGE)
    from headrace.monitor.metrics.exposition import choose_exposition
    from headrace.monitor.metrics.page import write_page

    exposition = choose_exposition(request.header("accept"))
    return Answer(write_page(context, exposition, limits), exposition.content_type)


def read_limits(query: Query) -> Limits:
    """Without a number, the limit is the usual one. Raises BadQuery for one that cannot be read."""
    given = [name for name in ("streams", "consumers") if query.get(name)]
    return Limits(**{name: decode_uint64(query, name) for name in given})
