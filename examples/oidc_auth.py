"""Admits clients by their OpenID Connect token: `authorization { python: "oidc_auth:check" }`

A client passes its token where NATS has one: nats.connect(token=...). This checks that the provider has
signed it, that it is for this server, and that its time is not over; the connection is closed when it is.

Settings, as environment variables of the server:

    OIDC_ISSUER     https://login.example.org
    OIDC_AUDIENCE   the id under which this server is known there
    OIDC_JWKS_URL   where the provider's keys are, if not at the issuer's usual address
"""

from __future__ import annotations

import base64
import json
import os
import time
import urllib.request
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.hashes import SHA256

from headrace.auth import Connection, User

ISSUER = os.environ.get("OIDC_ISSUER", "")
AUDIENCE = os.environ.get("OIDC_AUDIENCE", "")
JWKS_URL = os.environ.get("OIDC_JWKS_URL", f"{ISSUER}/.well-known/jwks.json")
REFRESH_SECONDS = 30.0

_keys: dict[str, Any] = {}
_fetched_at = 0.0


def check(connection: Connection) -> User | None:
    """A plain function, since it waits for the provider now and then: it has a thread of its own."""
    claims = verify(connection.token)
    if claims is None:
        return None
    return User(name=claims["sub"], expires=float(claims["exp"]))


def verify(token: str) -> dict[str, Any] | None:
    """The claims of a token that counts; None: it does not."""
    try:
        signed, _, signature = token.rpartition(".")
        header, claims = (json.loads(decode(part)) for part in signed.split("."))
        key = find_key(header["kid"])
        if key is None or not is_signed(key, header["alg"], signed.encode(), decode(signature)):
            return None
        audience = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
        is_ours = claims["iss"] == ISSUER and AUDIENCE in audience
        is_now = claims.get("nbf", 0) <= time.time() < claims["exp"]
        return claims if is_ours and is_now else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def is_signed(key: Any, algorithm: str, data: bytes, signature: bytes) -> bool:
    """The algorithm must be that of the key: what the token says must not choose another one."""
    try:
        if algorithm == "RS256" and isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, data, padding.PKCS1v15(), SHA256())
        elif algorithm == "ES256" and isinstance(key, ec.EllipticCurvePublicKey) and len(signature) == 64:
            numbers = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
            key.verify(utils.encode_dss_signature(*numbers), data, ec.ECDSA(SHA256()))
        else:
            return False
    except InvalidSignature:
        return False
    return True


def find_key(name: str) -> Any:
    """A key that is not known yet may be new, but it is not looked for with every connection."""
    global _fetched_at
    if name not in _keys and time.monotonic() - _fetched_at > REFRESH_SECONDS:
        _fetched_at = time.monotonic()
        with urllib.request.urlopen(JWKS_URL, timeout=2) as response:
            _keys.update({key["kid"]: read_key(key) for key in json.load(response)["keys"] if "kid" in key})
    return _keys.get(name)


def read_key(key: dict[str, str]) -> Any:
    def number(field: str) -> int:
        return int.from_bytes(decode(key[field]), "big")

    if key["kty"] == "RSA":
        return rsa.RSAPublicNumbers(number("e"), number("n")).public_key()
    if key["kty"] == "EC" and key.get("crv") == "P-256":
        return ec.EllipticCurvePublicNumbers(number("x"), number("y"), ec.SECP256R1()).public_key()
    return None


def decode(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
