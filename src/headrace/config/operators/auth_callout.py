"""Reads `authorization { auth_callout }`: a service that decides who may connect."""

from __future__ import annotations

from headrace.config.identity import GLOBAL_ACCOUNT
from headrace.config.operators.trust import CalloutOptions
from headrace.config.problems import Problems
from headrace.config.values import KIND_NAMES, Value
from headrace.keys.nkeys import is_public


def read_callout(block: Value, problems: Problems) -> CalloutOptions:
    """Unknown fields go to `problems`."""
    if not isinstance(block.plain, dict):
        raise block.error("Expected authorization callout to be a map/struct")
    issuer = xkey = ""
    account = GLOBAL_ACCOUNT
    users: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    for name, value in block.plain.items():
        lowered = name.lower()
        if lowered == "issuer":
            issuer = _key(value, "account", "Expected callout user to be a valid public account nkey, got")
        elif lowered in ("account", "acc"):
            account = value.string() or GLOBAL_ACCOUNT
        elif lowered in ("auth_users", "users"):
            users = _names(value, "auth_users field")
        elif lowered in ("xkey", "key"):
            xkey = _key(value, "curve", "Expected callout xkey to be a valid public xkey, got")
        elif lowered == "allowed_accounts":
            allowed = _names(value, "allowed accounts field")
        elif not value.used_as_variable:
            with problems.collecting():
                raise value.error(f'Unknown field "{name}" parsing authorization callout')
    if not issuer:
        raise block.error("Authorization callouts require an issuer to be specified")
    if not users:
        raise block.error("Authorization callouts require authorized users to be specified")
    return CalloutOptions(issuer, account, users, xkey, allowed)


def _key(value: Value, kind: str, error: str) -> str:
    key = value.string()
    if not is_public(key, "account" if kind == "account" else "curve"):
        raise value.error(f'{error} "{key}"' if not key.startswith("S") else f"{error} a seed")
    return key


def _names(value: Value, field: str) -> tuple[str, ...]:
    if not isinstance(value.plain, list):
        raise value.error(f"Expected {field} to be an array, got {KIND_NAMES[type(value.plain)]}")
    return tuple(entry.string() for entry in value.plain)
