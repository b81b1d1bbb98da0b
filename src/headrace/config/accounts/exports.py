"""Reads what an account exports to others, and what it imports from them.

    exports: [{stream: "public.>"}, {service: "rates", accounts: [A, B], response_type: stream}]
    imports: [{stream: {account: C, subject: "public.>"}, prefix: c}, {service: {account: C, subject: rates}}]

Whether they fit together is checked when all accounts are known: config/accounts/import_checks.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from headrace.config.durations import parse_duration
from headrace.config.identity import Latency, ServiceExport, ServiceImport, StreamExport, StreamImport
from headrace.config.problems import Problems
from headrace.config.values import KIND_NAMES, Value

Fields = dict[str, Any]

_INTEGER = re.compile(r"[+-]?[0-9]+")
_ONLY_SERVICES = {
    "response": "Detected response directive on non-service",
    "threshold": "Detected response directive on non-service",
    "latency": "Detected latency directive on non-service",
    "allow_trace": "Detected allow_trace directive on non-service",
}
_ALIASES = {
    "response_type": "response",
    "response_threshold": "threshold",
    "response_max_time": "threshold",
    "response_time": "threshold",
}
RESPONSES: dict[str, Literal["singleton", "stream", "chunked"]] = {
    "single": "singleton",
    "singleton": "singleton",
    "stream": "stream",
    "chunk": "chunked",
    "chunked": "chunked",
}


def read_exports(value: Value, problems: Problems) -> Fields:
    """The changes to AccountOptions. Errors in an entry go to `problems`."""
    streams: list[StreamExport] = []
    services: list[ServiceExport] = []
    for entry in _entries(value, "Exports"):
        with problems.collecting():
            export = _read_export(entry, problems)
            if isinstance(export, StreamExport):
                streams.append(export)
            elif export is not None:
                services.append(export)
    return {"stream_exports": tuple(streams), "service_exports": tuple(services)}


def read_imports(value: Value, problems: Problems) -> Fields:
    """The changes to AccountOptions. Errors in an entry go to `problems`."""
    streams: list[StreamImport] = []
    services: dict[tuple[str, str], ServiceImport] = {}
    for entry in _entries(value, "Imports"):
        with problems.collecting():
            found = _read_import(entry, problems)
            if isinstance(found, StreamImport):
                streams.append(found)
            elif found is not None:
                if first := services.get((found.to, found.account)):
                    raise entry.error(
                        f'Duplicate service import subject "{found.to}", previously used in import for '
                        f'account "{first.account}", subject "{first.subject}"'
                    )
                services[found.to, found.account] = found
    return {"stream_imports": tuple(streams), "service_imports": tuple(services.values())}


def _entries(value: Value, what: str) -> list[Value]:
    if not isinstance(value.plain, list):
        raise value.error(f"{what} should be an array, got {KIND_NAMES[type(value.plain)]}")
    return value.plain


def _map_of(entry: Value, what: str) -> dict[str, Value]:
    if not isinstance(entry.plain, dict):
        raise entry.error(
            f"{what} Items should be a map with type entry, got {KIND_NAMES[type(entry.plain)]}"
        )
    return entry.plain


# -- exports


def _read_export(entry: Value, problems: Problems) -> StreamExport | ServiceExport | None:
    kind = ""
    fields: Fields = {}
    for name, value in _map_of(entry, "Export").items():
        lowered = _ALIASES.get(name.lower(), name.lower())
        with problems.collecting():
            if lowered in ("stream", "service"):
                if kind:
                    raise value.error(f'Detected {lowered} "{value.plain}" but already saw a {kind}')
                if lowered == "stream" and (others := _ONLY_SERVICES.keys() & fields.keys()):
                    raise value.error(_ONLY_SERVICES[min(others)])
                if not isinstance(value.plain, str):
                    got = KIND_NAMES[type(value.plain)]
                    raise value.error(f"Expected {lowered} name to be string, got {got}")
                kind, fields["subject"] = lowered, value.plain
            elif reader := EXPORT_FIELDS.get(lowered):
                if lowered in fields:
                    raise value.error(_DUPLICATES[lowered])
                fields[lowered] = reader(value)
                if kind == "stream" and lowered in _ONLY_SERVICES:
                    raise value.error(_ONLY_SERVICES[lowered])
            elif not value.used_as_variable:
                raise value.error(f'unknown field "{name}"')
    if not kind:
        return None
    subject, accounts = fields["subject"], fields.get("accounts")
    position = fields.get("account_token_position", 0)
    if kind == "stream":
        return StreamExport(subject, accounts, position)
    return ServiceExport(
        subject,
        accounts,
        position,
        response=fields.get("response", "singleton"),
        response_threshold=fields.get("threshold", 0.0),
        latency=fields.get("latency"),
        allow_trace=fields.get("allow_trace", False),
    )


def _read_response(value: Value) -> str:
    if not isinstance(value.plain, str):
        raise value.error(f"Expected response type to be string, got {KIND_NAMES[type(value.plain)]}")
    if value.plain.lower() not in RESPONSES:
        raise value.error(f'Unknown response type: "{value.plain}"')
    return RESPONSES[value.plain.lower()]


def _read_threshold(value: Value) -> float:
    expected = "Expected response threshold to be a parseable time duration"
    if not isinstance(value.plain, str):
        raise value.error(f"{expected}, got {KIND_NAMES[type(value.plain)]}")
    try:
        return parse_duration(value.plain)
    except ValueError:
        raise value.error(f'{expected}, got "{value.plain}"') from None


def _read_accounts(value: Value) -> tuple[str, ...] | None:
    return tuple(name.string() for name in value.array()) or None


def _read_latency(value: Value) -> Latency:
    plain = value.plain
    if isinstance(plain, str):
        return Latency(plain)
    if not isinstance(plain, dict):
        raise value.error(
            f"Expected latency entry to be a map/struct or string, got {KIND_NAMES[type(plain)]}"
        )
    percent = _read_sampling(plain["sampling"]) if "sampling" in plain else 100
    if "subject" not in plain:
        raise value.error("Latency subject required, but missing")
    return Latency(plain["subject"].string(), percent)


def _read_sampling(value: Value) -> int:
    plain = value.plain
    if isinstance(plain, str):
        if plain.strip().lower() == "headers":
            return 0
        text = plain.removesuffix("%")
        if _INTEGER.fullmatch(text) is None or len(text) > 18:
            reason = f'strconv.Atoi: parsing "{text}": invalid syntax'
            raise value.error(f"Failed to parse latency sample: {reason}")
        percent = int(text)
    elif type(plain) is int:
        percent = plain
    else:
        got = KIND_NAMES[type(plain)]
        raise value.error(f"Expected latency sample to be a string or map/struct, got {got}")
    if not 1 <= percent <= 100:
        raise value.error("bad sampling percentage, should be 1-100")
    return percent


_DUPLICATES = {
    "response": "Duplicate response type definition",
    "threshold": "Duplicate response threshold detected",
    "latency": "Duplicate latency detected",
    "accounts": "Duplicate accounts detected",
    "account_token_position": "Duplicate account_token_position detected",
    "allow_trace": "Duplicate allow_trace detected",
}
EXPORT_FIELDS: dict[str, Callable[[Value], Any]] = {
    "response": _read_response,
    "threshold": _read_threshold,
    "accounts": _read_accounts,
    "latency": _read_latency,
    "account_token_position": Value.integer,
    "allow_trace": Value.boolean,
}


# -- imports


def _read_import(entry: Value, problems: Problems) -> StreamImport | ServiceImport | None:
    kind, where = "", ("", "")
    fields: Fields = {}
    for name, value in _map_of(entry, "Import").items():
        lowered = name.lower()
        with problems.collecting():
            if lowered in ("stream", "service"):
                if kind:
                    raise value.error(f"Detected {lowered} but already saw a {kind}")
                if lowered == "service" and "allow_trace" in fields:
                    raise value.error("Detected allow_trace directive on a non-stream")
                where = _read_source(lowered.capitalize(), value, problems)
                kind = lowered
            elif reader := IMPORT_FIELDS.get(lowered):
                if lowered == "allow_trace" and kind == "service":
                    raise value.error("Detected allow_trace directive on a non-stream")
                fields[lowered] = reader(value)
                if lowered == "to" and kind == "stream" and fields.get("prefix"):
                    raise value.error("Stream import can not have a 'prefix' and a 'to' property")
            elif not value.used_as_variable:
                raise value.error(f'unknown field "{name}"')
    account, subject = where
    if kind == "stream":
        return StreamImport(
            account, subject, fields.get("to", ""), fields.get("prefix", ""), fields.get("allow_trace", False)
        )
    if kind == "service":
        return ServiceImport(account, subject, fields.get("to") or subject, fields.get("share", False))
    return None


def _read_source(kind: str, value: Value, problems: Problems) -> tuple[str, str]:
    """The account, and its subject."""
    if not isinstance(value.plain, dict):
        raise value.error(f"{kind} entry should be an account map, got {KIND_NAMES[type(value.plain)]}")
    found = {"account": "", "subject": ""}
    for name, entry in value.plain.items():
        with problems.collecting():
            if name.lower() in found:
                found[name.lower()] = entry.string()
            elif not entry.used_as_variable:
                raise entry.error(f'unknown field "{name}"')
    if not found["account"] or not found["subject"]:
        raise value.error("Expect an account name and a subject")
    return found["account"], found["subject"]


IMPORT_FIELDS: dict[str, Callable[[Value], Any]] = {
    "prefix": Value.string,
    "to": Value.string,
    "share": Value.boolean,
    "allow_trace": Value.boolean,
}
