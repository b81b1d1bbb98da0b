"""/healthz: whether the server accepts clients, and whether all streams can be read and written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.go_formats import quote
from headrace.http.message import Answer
from headrace.monitor.documents import encode_value
from headrace.monitor.endpoint import Context
from headrace.monitor.query import Query, decode_bool

if TYPE_CHECKING:
    from headrace.engine.store.log import Log
    from headrace.streams.jetstream import JetStream
    from headrace.streams.jetstream_account import JetStreamAccount

FLAGS = ("js-enabled", "js-enabled-only", "js-server-only", "js-meta-only", "details")
NOT_READY = "failed to be ready for connections after 1ms: server"
NOT_ENABLED = "jetstream not enabled"
MISSING_ACCOUNT = '"account" must not be empty when checking stream health'
MISSING_STREAM = '"stream" must not be empty when checking consumer health'


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that is wrong, as `details` shows it."""

    type: str
    account: str = ""
    stream: str = ""
    consumer: str = ""
    error: str = ""


class Diagnosis(msgspec.Struct, frozen=True):
    """The HTTP status, the word for it, and the problems; without `details` only the first is shown."""

    status: int = 200
    word: str = "ok"
    problems: list[Problem] = []


HEALTHY = Diagnosis()


class Asked(msgspec.Struct, frozen=True):
    """What to check; the names that are empty mean all."""

    enabled_only: bool = False
    server_only: bool = False
    details: bool = False
    account: str = ""
    stream: str = ""
    consumer: str = ""


def answer_healthz(context: Context, query: Query) -> Answer:
    context.request_counts["/healthz"] += 1
    logger = context.broker.logger
    flags = {name: decode_bool(query, name) for name in FLAGS}
    if flags["js-enabled"]:
        logger.warn("Healthcheck: js-enabled deprecated, use js-enabled-only instead")
    asked = Asked(
        enabled_only=flags["js-enabled-only"] or flags["js-enabled"],
        server_only=flags["js-server-only"],
        details=flags["details"],
        account=query.get("account", ""),
        stream=query.get("stream", ""),
        consumer=query.get("consumer", ""),
    )
    document, status = make_healthz(context, asked)
    if "error" in document:
        logger.warn(f"Healthcheck failed: {quote(document['error'])}")
    elif "errors" in document:
        logger.warn(f"Healthcheck failed: {len(document['errors'])} errors")
    return Answer([encode_value(document)], status=status)


def make_healthz(context: Context, asked: Asked) -> tuple[dict[str, Any], int]:
    """The document, and the HTTP status that goes with it."""
    diagnosis = examine(context, asked)
    if not diagnosis.problems:
        return {"status": "ok"}, diagnosis.status
    if asked.details:
        return {"status": "error", "errors": diagnosis.problems}, diagnosis.status
    return {"status": diagnosis.word, "error": diagnosis.problems[0].error}, diagnosis.status


def examine(context: Context, asked: Asked) -> Diagnosis:
    if asked.stream and not asked.account:
        return Diagnosis(400, "error", [Problem("BAD_REQUEST", error=MISSING_ACCOUNT)])
    if asked.consumer and not asked.stream:
        return Diagnosis(400, "error", [Problem("BAD_REQUEST", error=MISSING_STREAM)])
    if not context.broker.is_accepting:
        return Diagnosis(500, "error", [Problem("CONNECTION", error=NOT_READY)])
    if asked.server_only or not context.broker.options.jetstream:
        return HEALTHY
    if context.jetstream is None:
        return Diagnosis(503, "unavailable", [Problem("JETSTREAM", error=NOT_ENABLED)])
    if asked.enabled_only:
        return HEALTHY
    if missing := find_missing(context.jetstream, asked):
        return Diagnosis(404, "unavailable", [missing])
    if problems := find_problems(context.jetstream, asked):
        return Diagnosis(503, "unavailable", problems)
    return HEALTHY


def find_missing(jetstream: JetStream, asked: Asked) -> Problem | None:
    """The account, stream or consumer that was asked for and does not exist."""
    account, name, consumer = asked.account, asked.stream, asked.consumer
    if not account:
        return None
    found = jetstream.accounts.get(account)
    stored = stored_streams(found) if found else set()
    if found is None or not stored:
        return Problem("ACCOUNT", account, error=f"JetStream account {quote(account)} not found")
    if name and name not in stored:
        error = f"JetStream stream {quote(name)} not found on account {quote(account)}"
        return Problem("STREAM", account, name, error=error)
    stream = found.streams.get(name)
    if consumer and stream and consumer not in {*stream.consumers, *stream.damaged_consumers}:
        error = (
            f"JetStream consumer {quote(consumer)} not found for stream {quote(name)} "
            f"on account {quote(account)}"
        )
        return Problem("CONSUMER", account, name, consumer, error)
    return None


def find_problems(jetstream: JetStream, asked: Asked) -> list[Problem]:
    """Streams on disk that could not be recovered, and streams with problems."""
    return [
        problem
        for account in jetstream.accounts.values()
        if asked.account in ("", account.name)
        for name in sorted(stored_streams(account))
        if asked.stream in ("", name)
        for problem in examine_stream(account, name)
    ]


def examine_stream(account: JetStreamAccount, name: str) -> list[Problem]:
    stream = account.streams.get(name)
    found = ["could not be recovered"] if stream is None else troubles(stream.log)
    where = f"JetStream stream '{account.name} > {name}'"
    problems = [Problem("STREAM", account.name, name, error=f"{where} {trouble}") for trouble in found]
    for consumer in sorted(stream.damaged_consumers) if stream else ():
        error = f"JetStream consumer '{account.name} > {name} > {consumer}' could not be recovered: damaged"
        problems.append(Problem("CONSUMER", account.name, name, consumer, error))
    return problems


def troubles(log: Log) -> list[str]:
    """What is wrong with a stream's files; the server's log has all of it, too."""
    found = []
    if log.failure:
        found.append(f"write error: {log.failure}")
    if reason := log.check_reading():
        found.append(f"read error: {reason}")
    if log.damages:
        found.append(f"damaged: {len(log.damages)} reports, the first: {log.damages[0]}")
    if log.erase_failure:
        found.append(f"erase error: {log.erase_failure}")
    return found


def stored_streams(account: JetStreamAccount) -> set[str]:
    """The names of streams that are running or have a directory."""
    try:
        names = os.listdir(account.directory)
    except OSError:
        names = []
    return {name for name in names if not name.startswith(".")} | set(account.streams)
