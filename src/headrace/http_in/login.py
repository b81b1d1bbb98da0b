"""The `Authorization` of a request as fields of CONNECT."""

from __future__ import annotations

import binascii
from base64 import b64decode

CHALLENGE = ("WWW-Authenticate", 'Basic realm="headrace", charset="UTF-8"')


class BadAuthorization(Exception):
    """It is neither Basic nor Bearer, or cannot be read."""


def read_authorization(header: str, *, is_operator_mode: bool) -> dict[str, str]:
    """Nothing for an empty header: whoever needs no credentials. Raises BadAuthorization.

    A bearer token is a JWT where users have those, and the server's token elsewhere.
    """
    if not header:
        return {}
    scheme, _, value = header.strip().partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and value:
        return {"jwt" if is_operator_mode else "auth_token": value}
    if scheme.lower() == "basic":
        try:
            user, colon, password = b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise BadAuthorization from None
        if colon:
            return {"user": user, "pass": password}
    raise BadAuthorization
