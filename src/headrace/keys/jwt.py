"""NATS tokens: JSON Web Tokens that are signed with nkeys.

    eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ . eyJqdGki... . signature

Three parts in base64url without padding. The key that has signed it is in the claims (`iss`), so a token that
decodes is intact, and nothing more: the caller must know and trust the key. Tokens of version 1 are still
read: there, only the second part is signed, and the kind is not in `nats` but next to it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import time
from typing import Any, TypeVar

import msgspec

from headrace.errors import HeadraceError
from headrace.keys.claims import (
    AccountClaims,
    ActivationClaims,
    AnyClaims,
    AuthorizationRequestClaims,
    AuthorizationResponseClaims,
    Claims,
    GenericClaims,
    OperatorClaims,
    UserClaims,
)
from headrace.keys.nkeys import InvalidKey, KeyPair, Kind, decode_public, verify

MAX_TOKEN_BYTES = 1024 * 1024
VERSION = 2
PREFIX = "eyJ"
"""Every token begins with this: `{"` in base64."""

_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")
_BLOCK = re.compile(r"\s*-{3,}.*-{3,}\r?\n([\w\-.=]+)\r?\n-{3,}.*-{3,}(?:\r?\n|\Z)")


class InvalidToken(HeadraceError):
    """Not a NATS token, or one that was changed. The message never has the token in it."""


class _Kind(msgspec.Struct, frozen=True):
    claims: type[AnyClaims]
    signers: tuple[Kind, ...]
    """Which kinds of keys may sign it."""


KINDS: dict[str, _Kind] = {
    "operator": _Kind(OperatorClaims, ("operator",)),
    "account": _Kind(AccountClaims, ("account", "operator")),
    "user": _Kind(UserClaims, ("account",)),
    "activation": _Kind(ActivationClaims, ("account", "operator")),
    "authorization_request": _Kind(AuthorizationRequestClaims, ("server",)),
    "authorization_response": _Kind(AuthorizationResponseClaims, ("account",)),
}
_NAMES: dict[type[Claims], str] = {kind.claims: name for name, kind in KINDS.items()}
_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}

SomeClaims = TypeVar("SomeClaims", bound=Claims)


def encode(claims: AnyClaims, signer: KeyPair, *, issued_at: int | None = None) -> str:
    """A token with these claims. It sets who has issued them, when, their id, kind and version."""
    claims.issuer = signer.public_key
    claims.issued_at = int(time.time()) if issued_at is None else issued_at
    if isinstance(claims, GenericClaims):
        claims.nats["version"] = VERSION
    else:
        claims.nats.type = _NAMES[type(claims)]
        claims.nats.version = VERSION
    claims.id = ""
    claims.id = base64.b32encode(hashlib.sha256(msgspec.json.encode(claims)).digest()).rstrip(b"=").decode()
    signed = f"{_encode_part(_HEADER)}.{_encode_part(claims)}"
    return f"{signed}.{encode_base64url(signer.sign(signed.encode()))}"


def decode(token: str) -> AnyClaims:
    """The claims of a token that is intact, which is not to say trusted. Raises InvalidToken."""
    if len(token) > MAX_TOKEN_BYTES:
        raise InvalidToken(f"token size {len(token)} exceeds maximum of {MAX_TOKEN_BYTES} bytes")
    parts = token.split(".")
    if len(parts) != 3:
        raise InvalidToken("expected 3 chunks")
    _check_header(_decode_json(parts[0]))
    claims, version, signers = _read_claims(_decode_json(parts[1]))
    signed = parts[1] if version <= 1 else token[: len(parts[0]) + 1 + len(parts[1])]
    signature = _decode_part(parts[2])
    try:
        kind = decode_public(claims.issuer)[0]
        is_intact = verify(claims.issuer, signed.encode(), signature)
    except InvalidKey:
        is_intact = False
    if not is_intact:
        raise InvalidToken(f"claim failed V{1 if version <= 1 else 2} signature verification")
    if signers and kind not in signers:
        raise InvalidToken(f"a key of the kind {kind} must not sign it")
    return claims


def decode_as(kind: type[SomeClaims], token: str) -> SomeClaims:
    """As `decode`, for a token of this kind. Raises InvalidToken."""
    claims = decode(token)
    if not isinstance(claims, kind):
        raise InvalidToken(f"not {_NAMES.get(kind, 'generic')} claim")
    return claims


def undecorated(text: str) -> str:
    """The token in a file, which may have it between lines of dashes."""
    block = _BLOCK.search(text)
    return block.group(1) if block else text.strip()


def encode_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_base64url(text: str) -> bytes:
    """Without padding. Raises ValueError for anything else: Python would skip over strange characters."""
    if not _BASE64URL.fullmatch(text):
        raise ValueError("illegal base64 data")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _encode_part(part: object) -> str:
    return encode_base64url(msgspec.json.encode(part))


def _decode_part(text: str) -> bytes:
    try:
        return decode_base64url(text)
    except (ValueError, binascii.Error):
        legal = _BASE64URL.match(text)
        place = legal.end() if legal and legal.end() < len(text) else len(text) - 1
        raise InvalidToken(f"illegal base64 data at input byte {place}") from None


def _decode_json(text: str) -> dict[str, Any]:
    try:
        decoded = _without_nulls(msgspec.json.decode(_decode_part(text)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidToken("invalid JSON in the token") from None
    if not isinstance(decoded, dict):
        raise InvalidToken("invalid JSON in the token")
    return decoded


def _check_header(header: dict[str, Any]) -> None:
    kind, algorithm = header.get("typ", ""), header.get("alg", "")
    if not isinstance(kind, str) or kind.upper() != "JWT":
        raise InvalidToken(f'not supported type "{_shown(kind)}"')
    if not isinstance(algorithm, str) or algorithm.lower() not in ("ed25519", "ed25519-nkey"):
        raise InvalidToken(f'unexpected "{_shown(algorithm)}" algorithm')


def _shown(value: object) -> str:
    return str(value)[:20] if isinstance(value, str) else type(value).__name__


def _read_claims(fields: dict[str, Any]) -> tuple[AnyClaims, int, tuple[Kind, ...]]:
    """The claims, their version, and the kinds of keys that may sign them."""
    own = fields.setdefault("nats", {})
    if not isinstance(own, dict):
        raise InvalidToken("invalid JSON in the token")
    name, version = fields.get("type") or own.get("type", ""), own.get("version", 0)
    if fields.get("type"):
        version = 1
    if not isinstance(name, str) or type(version) is not int:
        raise InvalidToken("invalid JSON in the token")
    if version > VERSION:
        raise InvalidToken("JWT was generated by a newer version ")
    kind = KINDS.get(name, _Kind(GenericClaims, ()))
    if name in KINDS and version < 1:
        raise InvalidToken(f"library supports version {VERSION} or less - received {version}")
    if version == 1 and name in KINDS:
        _migrate(name, fields, own)
    if name == "user" and isinstance(own.get("src"), str):
        own["src"] = [part.strip().lower() for part in own["src"].split(",") if part.strip()]
    try:
        return msgspec.convert(fields, kind.claims), version, kind.signers
    except msgspec.ValidationError as error:
        raise InvalidToken(f"cannot read the claims: {error}") from None


def _migrate(name: str, fields: dict[str, Any], own: dict[str, Any]) -> None:
    """From version 1, in which some fields were elsewhere and a limit that was left out was none."""
    for moved in ("type", "tags", "issuer_account"):
        if moved in fields:
            own[moved] = fields[moved]
    own["version"] = 1
    if name == "user":
        for limit in ("subs", "data", "payload"):
            own.setdefault(limit, -1)


def _without_nulls(value: Any) -> Any:
    """Go's decoder, by which tokens were tested, takes null for absent."""
    if isinstance(value, dict):
        return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [_without_nulls(entry) for entry in value if entry is not None]
    return value
