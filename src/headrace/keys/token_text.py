"""A token as people read it, for `headrace auth show`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from headrace.errors import UsageError
from headrace.keys.claims import AnyClaims, GenericClaims
from headrace.keys.jwt import InvalidToken, decode, undecorated
from headrace.keys.nkeys import InvalidKey, KeyPair

LABELS = {
    "aud": "for",
    "exp": "expires",
    "iat": "issued",
    "iss": "issued by",
    "nbf": "not before",
    "sub": "subject",
}
TIMES = ("exp", "iat", "nbf")
HIDDEN = ("jti", "nats")


def describe_file(name: str, text: str) -> str:
    """Raises UsageError, which names the file and never has its content."""
    token = undecorated(text)
    try:
        return describe(decode(token))
    except InvalidToken as error:
        try:
            pair = KeyPair.from_seed(text)
        except InvalidKey:
            raise UsageError(
                f"{name} is neither a token nor a key: {error}",
                hint="it has a JWT, a .creds file or an nkey seed",
            ) from None
    return f"seed of a key of the kind {pair.kind} (not shown)\npublic key  {pair.public_key}"


def describe(claims: AnyClaims) -> str:
    fields: dict[str, Any] = msgspec.to_builtins(claims)
    kind = claims.nats.get("type", "generic") if isinstance(claims, GenericClaims) else claims.nats.type
    lines = [f"{'kind':<12}{kind}"]
    for name, value in fields.items():
        if name not in HIDDEN:
            lines.append(f"{LABELS.get(name, name):<12}{_show_time(value) if name in TIMES else value}")
    if not claims.expires:
        lines.append(f"{'expires':<12}never")
    elif claims.expires <= time.time():
        lines.append("it has expired")
    own = {name: value for name, value in fields["nats"].items() if value not in ({}, [], "")}
    own.pop("type", None)
    own.pop("version", None)
    lines += list(_nested(own, ""))
    return "\n".join(lines)


def _nested(fields: dict[str, Any], indent: str) -> list[str]:
    lines = []
    for name, value in fields.items():
        if isinstance(value, dict) and value:
            lines += [f"{indent}{name}:", *_nested(value, indent + "  ")]
        elif isinstance(value, list):
            shown = (
                msgspec.json.encode(entry).decode() if isinstance(entry, dict) else entry for entry in value
            )
            lines.append(f"{indent}{name:<{max(12 - len(indent), 1)}}{', '.join(map(str, shown))}")
        elif value != {}:
            shown_value = "no limit" if value == -1 and type(value) is int else value
            lines.append(f"{indent}{name:<{max(12 - len(indent), 1)}}{shown_value}")
    return lines


def _show_time(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return str(seconds)
