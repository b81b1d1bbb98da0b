"""Reads the directives of operator mode: `operator`, `trusted_keys`, `resolver` and related ones.

operator: /etc/nats/operator.jwt
resolver: { type: full, dir: /var/lib/nats/accounts }
resolver_preload: { AD...: eyJ... }
"""

from __future__ import annotations

import os
import re

import msgspec

from headrace.config.durations import parse_duration
from headrace.config.operators.trust import (
    CACHE_SECONDS,
    FETCH_SECONDS,
    SYNC_SECONDS,
    ResolverOptions,
    TrustOptions,
)
from headrace.config.values import KIND_NAMES, Value
from headrace.errors import ConfigError
from headrace.keys.claims import AccountClaims, OperatorClaims
from headrace.keys.jwt import PREFIX, InvalidToken, decode_as, undecorated
from headrace.keys.nkeys import is_public

_MEMORY = re.compile(r"MEM(ORY)?\s*", re.IGNORECASE)
_URL = re.compile(r'URL\(\s*"?([^\s"]*)"?\s*\)\s*', re.IGNORECASE)
_WEB = re.compile(r"https?://[^/\s]+", re.IGNORECASE)


def read_operators(value: Value, trust: TrustOptions) -> TrustOptions:
    """One operator, or several: files with tokens, or the tokens themselves."""
    entries = value.plain if isinstance(value.plain, list) else [value]
    return msgspec.structs.replace(trust, operators=tuple(_read_operator(entry) for entry in entries))


def _read_operator(entry: Value) -> str:
    if not isinstance(entry.plain, str):
        raise entry.error(f"error parsing operators: unsupported type, expected a string, got {_kind(entry)}")
    named = entry.plain
    try:
        with open(named, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except (OSError, ValueError) as error:
        if not named.startswith(PREFIX):
            reason = (
                error.strerror.lower() if isinstance(error, OSError) and error.strerror else "no such file"
            )
            raise entry.error(
                f"error parsing operator JWT: open {named}: {reason}",
                hint="it names the file with the operator's JWT, or is the JWT itself",
            ) from None
        text = named
    token = undecorated(text)
    try:
        decode_as(OperatorClaims, token)
    except InvalidToken as error:
        where = "the JWT in the configuration" if text is named else named
        raise entry.error(
            f"error parsing operator JWT: {error}",
            hint=f"{where} is not the JWT of an operator: copy it again",
        ) from None
    return token


def read_trusted_keys(value: Value, trust: TrustOptions) -> TrustOptions:
    keys = _strings(value, "trusted")
    for key in keys:
        if not is_public(key, "operator"):
            raise value.error(f'trust key "{key}" required to be a valid public operator nkey')
    return msgspec.structs.replace(trust, trusted_keys=keys)


def read_resolver(value: Value, trust: TrustOptions) -> TrustOptions:
    plain = value.plain
    if isinstance(plain, str):
        resolver = _read_named_resolver(value, plain)
    elif isinstance(plain, dict):
        resolver = _read_directory(value, plain)
    else:
        raise value.error(f"error parsing operator resolver, wrong type {_kind(value)}")
    return msgspec.structs.replace(trust, resolver=resolver)


def _read_named_resolver(value: Value, text: str) -> ResolverOptions:
    if _MEMORY.search(text):
        return ResolverOptions("memory")
    found = _URL.search(text)
    if found is None:
        raise _no_resolver(value)
    url = found.group(1)
    if not _WEB.match(url):
        raise value.error(
            f'error parsing account resolver url ["{url}"]', hint="it begins with http:// or https://"
        )
    return ResolverOptions("url", url=url if url.endswith("/") else url + "/")


def _no_resolver(value: Value) -> ConfigError:
    return value.error(
        'error parsing account resolver, should be MEM or  URL("url") or a map containing dir and type '
        "state=[FULL|CACHE])"
    )


def _read_directory(value: Value, fields: dict[str, Value]) -> ResolverOptions:
    kind = fields["type"].string().upper() if "type" in fields else ""
    if kind in ("MEM", "MEMORY"):
        return ResolverOptions("memory")
    if kind not in ("FULL", "CACHE"):
        raise _no_resolver(value)
    _check_combination(value, kind, fields)
    return ResolverOptions(
        "full" if kind == "FULL" else "cache",
        directory=_read_dir(value, fields),
        allow_delete=_flag(fields, "allow_delete"),
        hard_delete=_flag(fields, "hard_delete"),
        limit=fields["limit"].integer() if "limit" in fields else 0,
        ttl=_seconds(value, fields, "ttl") or CACHE_SECONDS,
        interval=_seconds(value, fields, "interval") or SYNC_SECONDS,
        timeout=_seconds(value, fields, "timeout") or FETCH_SECONDS,
    )


def _check_combination(value: Value, kind: str, fields: dict[str, Value]) -> None:
    if kind == "CACHE":
        if _seconds(value, fields, "interval"):
            raise value.error("CACHE does not accept sync")
        for name in ("allow_delete", "hard_delete"):
            if _flag(fields, name) or (name == "hard_delete" and name in fields):
                raise value.error(f"CACHE does not accept {name}")
    else:
        if _seconds(value, fields, "ttl"):
            raise value.error("FULL does not accept ttl")
        if "hard_delete" in fields and not _flag(fields, "allow_delete"):
            raise value.error("hard_delete has no effect without delete")


def _read_dir(value: Value, fields: dict[str, Value]) -> str:
    directory = fields["dir"].string() if "dir" in fields else ""
    if not directory:
        raise value.error("dir has no value and needs to point to a directory")
    if os.path.exists(directory) and not (os.path.isdir(directory) and os.access(directory, os.W_OK)):
        raise value.error("dir needs to point to an accessible directory")
    return directory


def _flag(fields: dict[str, Value], name: str) -> bool:
    return name in fields and fields[name].boolean()


def _seconds(value: Value, fields: dict[str, Value], name: str) -> float:
    """Mistakes are reported where the resolver is, as nats-server does."""
    if name not in fields:
        return 0.0
    try:
        return parse_duration(fields[name].string())
    except ValueError as error:
        raise value.error(str(error)) from None


def read_preload(value: Value, trust: TrustOptions) -> TrustOptions:
    if not isinstance(value.plain, dict):
        raise value.error("preload should be a map of account_public_key:account_jwt")
    preload = {}
    for key, entry in value.plain.items():
        if not isinstance(entry.plain, str):
            raise entry.error("preload map value should be a string JWT")
        try:
            claims = decode_as(AccountClaims, entry.plain)
        except InvalidToken as error:
            raise entry.error(
                "invalid account JWT", hint=f"resolver_preload of {key}: {error}; copy its whole JWT again"
            ) from None
        if not is_public(key, "account") or claims.subject != key:
            # nats-server accepts it, and never finds the account.
            raise entry.error(
                f'resolver_preload: the JWT under "{key}" is that of {claims.subject}',
                hint="the key of each entry is the public key of its account",
            )
        preload[key] = entry.plain
    return msgspec.structs.replace(trust, preload=preload)


def read_pinned_accounts(value: Value, trust: TrustOptions) -> TrustOptions:
    return msgspec.structs.replace(
        trust, pinned_accounts=frozenset(_strings(value, "resolver_pinned_accounts"))
    )


def read_default_sentinel(value: Value, trust: TrustOptions) -> TrustOptions:
    return msgspec.structs.replace(trust, default_sentinel=value.string())


def _strings(value: Value, name: str) -> tuple[str, ...]:
    entries = value.plain if isinstance(value.plain, list) else [value]
    if not all(isinstance(entry.plain, str) for entry in entries):
        raise value.error(f"error parsing {name}: unsupported type, expected strings")
    return tuple(entry.string() for entry in entries)


def _kind(value: Value) -> str:
    return KIND_NAMES[type(value.plain)]
