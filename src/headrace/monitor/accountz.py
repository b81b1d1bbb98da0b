"""/accountz: the names of all accounts, or one account with what it exports, imports and maps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import accumulate
from operator import itemgetter
from typing import Any

from headrace.accounts.account import Account
from headrace.accounts.claim_account import ClaimAccount
from headrace.config.identity import (
    Latency,
    Mapping,
    ServiceExport,
    ServiceImport,
    StreamExport,
    StreamImport,
)
from headrace.go_formats import NANOSECONDS, format_time
from headrace.http.message import Answer
from headrace.monitor.endpoint import Context, answer_document
from headrace.monitor.formats import show_token
from headrace.monitor.query import BadQuery, Query
from headrace.monitor.subsz import describe_interest
from headrace.subjects.transform import place_wildcards

RESPONSE_TYPES = {"singleton": "Singleton", "stream": "Streamed", "chunked": "Chunked"}
SYSTEM_EXPORTS = (
    ServiceExport("$SYS.REQ.ACCOUNT.*.CONNZ", response="stream"),
    ServiceExport("$SYS.REQ.ACCOUNT.*.STATZ", response="stream"),
)
USER_INFO = "$SYS.REQ.USER.INFO"
API = "$JS.API.>"


def answer_accountz(context: Context, query: Query) -> Answer:
    context.request_counts["/accountz"] += 1
    return answer_document(make_accountz(context, query.get("acc", "")))


def make_accountz(context: Context, name: str = "") -> dict[str, Any]:
    """Raises BadQuery if there is no such account."""
    broker = context.broker
    document: dict[str, Any] = {"server_id": broker.server_id, "now": format_time(time.time_ns())}
    if system := broker.options.system_account_name:
        document["system_account"] = system
    if name:
        document["account_detail"] = make_account_info(context, name)
    else:
        document["accounts"] = iter([account.name for account in broker.accounts])
    return document


def make_account_info(context: Context, name: str) -> dict[str, Any]:
    """Raises BadQuery if there is no such account."""
    account = context.broker.accounts.get(name)
    if account is None:
        raise BadQuery(f"Account {name} does not exist")
    operator_mode = context.broker.operator_mode
    claimed = operator_mode.directory.get(name) if operator_mode else None
    is_system = name == context.broker.options.system_account_name
    streams = context.jetstream.accounts.get(name) if context.jetstream else None
    described: dict[str, Any] = {
        "account_name": name,
        "update_time": format_time(account.updated_at),
        **({"is_system": True} if is_system else {}),
        "expired": claimed is not None and claimed.is_expired(),
        "complete": True,
        "jetstream_enabled": streams is not None and streams.is_enabled,
        "leafnode_connections": 0,
        "client_connections": account.connections,
        "subscriptions": account.interest.count,
    }
    links = {
        "mappings": {one.source: describe_mapping(one) for one in account.options.mappings},
        "exports": list(describe_exports(account, claimed, is_system=is_system)),
        "imports": list(describe_imports(context, account)),
    }
    described |= {key: value for key, value in links.items() if value}
    described |= describe_token(claimed) if claimed and claimed.token else {"name_tag": account.title}
    described["sublist_stats"] = describe_interest([account.interest])
    return described


def describe_mapping(mapping: Mapping) -> list[dict[str, Any]]:
    """With what stays where it is, if the weights leave a rest. Each weight includes those before it."""
    described: list[dict[str, Any]] = []
    for cluster in dict.fromkeys(["", *(one.cluster for one in mapping.destinations)]):
        weighted = [(one.weight, one.subject) for one in mapping.destinations if one.cluster == cluster]
        rest = 100 - sum(weight for weight, _ in weighted)
        if rest and all(one.subject != mapping.source for one in mapping.destinations):
            weighted.append((rest, place_wildcards(mapping.source)))
        weighted.sort(key=itemgetter(0))
        limits = accumulate(weight for weight, _ in weighted)
        label = {"cluster": cluster} if cluster else {}
        described += [
            {"subject": subject, "weight": limit, **label}
            for limit, (_, subject) in zip(limits, weighted, strict=True)
        ]
    return described


# -- exports and imports


def describe_exports(
    account: Account, claimed: ClaimAccount | None, *, is_system: bool
) -> Iterator[dict[str, Any]]:
    options = account.options
    exports = claimed.claims.nats.exports if claimed else []
    private = {(export.type, export.subject) for export in exports if export.token_req}
    for service in (*options.service_exports, *(SYSTEM_EXPORTS if is_system else ())):
        described: dict[str, Any] = {"subject": service.subject, "type": "service"}
        if ("service", service.subject) in private:
            described["token_req"] = True
        described["response_type"] = RESPONSE_TYPES[service.response]
        if service.latency:
            described["service_latency"] = describe_latency(service.latency)
        yield described | _approved(service)
    for stream in options.stream_exports:
        described = {"subject": stream.subject, "type": "stream"}
        if ("stream", stream.subject) in private:
            described["token_req"] = True
        yield described | _approved(stream)


def describe_latency(latency: Latency) -> Any:
    return {"sampling": latency.percent or "headers", "results": latency.subject}


def _approved(export: ServiceExport | StreamExport) -> dict[str, Any]:
    return {"approved_accounts": list(export.accounts)} if export.accounts else {}


def describe_imports(context: Context, account: Account) -> Iterator[dict[str, Any]]:
    for stream in account.options.stream_imports:
        yield describe_stream_import(stream)
    for service in (*account.options.service_imports, *system_imports(context, account.name)):
        yield {
            "subject": service.subject,
            "account": service.account,
            "to": service.to,
            "local_subject": service.to,
            "type": "service",
            "invalid": False,
            "share": service.share,
            "tracking": False,
        }


def describe_stream_import(stream: StreamImport) -> dict[str, Any]:
    local = f"{stream.prefix}.{stream.subject}" if stream.prefix else stream.to or stream.subject
    return {
        "subject": stream.subject,
        "account": stream.account,
        "local_subject": local,
        "type": "stream",
        "invalid": False,
        "share": False,
        "tracking": False,
    }


def system_imports(context: Context, name: str) -> Iterator[ServiceImport]:
    """What the server does for every account, as if it imported that from the system account."""
    options = context.broker.options
    system = options.system_account_name
    if not system:
        return
    if name != system:
        connections, statistics = f"$SYS.REQ.ACCOUNT.{name}.CONNZ", f"$SYS.REQ.ACCOUNT.{name}.STATZ"
        yield ServiceImport(system, connections, "$SYS.REQ.ACCOUNT.PING.CONNZ")
        yield ServiceImport(system, connections, "$SYS.REQ.SERVER.PING.CONNZ")
        yield ServiceImport(system, statistics, "$SYS.REQ.ACCOUNT.PING.STATZ")
    yield ServiceImport(system, f"$SYS.REQ.USER.{name}.INFO", USER_INFO, share=True)
    if options.jetstream and name != system:
        yield ServiceImport(system, API, API, share=True)


# -- tokens


def describe_token(claimed: ClaimAccount) -> dict[str, Any]:
    """What the token of an account says. Such tokens are public: nobody can log in with one."""
    claims, revocations = claimed.claims, claimed.claims.nats.revocations
    described: dict[str, Any] = {
        "jwt": claimed.token,
        "issuer_key": claims.issuer,
        "name_tag": claims.name or claims.subject,
        "tags": claims.nats.tags,
        "decoded_jwt": show_token(claimed.token),
        "revoked_user": {key: format_time(at * NANOSECONDS) for key, at in sorted(revocations.items())},
    }
    return {key: value for key, value in described.items() if value}
