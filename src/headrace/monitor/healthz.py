"""/healthz: whether the server takes clients. Without streams there is nothing else that could be ill."""

from __future__ import annotations

from typing import Any

from headrace.monitor.documents import encode_value
from headrace.monitor.endpoint import Answer, Context
from headrace.monitor.query import Query, decode_bool, quote

FLAGS = ("js-enabled", "js-enabled-only", "js-server-only", "js-meta-only", "details")
NOT_READY = "failed to be ready for connections after 1ms: server"
MISSING_ACCOUNT = '"account" must not be empty when checking stream health'
MISSING_STREAM = '"stream" must not be empty when checking consumer health'


def answer_healthz(context: Context, query: Query) -> Answer:
    context.request_counts["/healthz"] += 1
    log = context.broker.log
    flags = {name: decode_bool(query, name) for name in FLAGS}
    if flags["js-enabled"]:
        log.warn("Healthcheck: js-enabled deprecated, use js-enabled-only instead")
    status, kind, problem = examine(context, query)
    if not problem:
        return Answer([encode_value({"status": "ok"})])
    document: dict[str, Any] = {"status": "error"}
    if flags["details"]:
        document["errors"] = [{"type": kind, "error": problem}]
        log.warn("Healthcheck failed: 1 errors")
    else:
        document["error"] = problem
        log.warn(f"Healthcheck failed: {quote(problem)}")
    return Answer([encode_value(document)], status=status)


def examine(context: Context, query: Query) -> tuple[int, str, str]:
    """The HTTP status, what kind of problem there is, and the problem; "" if all is well."""
    if query.get("stream") and not query.get("account"):
        return 400, "BAD_REQUEST", MISSING_ACCOUNT
    if query.get("consumer") and not query.get("stream"):
        return 400, "BAD_REQUEST", MISSING_STREAM
    if not context.broker.is_accepting:
        return 500, "CONNECTION", NOT_READY
    return 200, "", ""
