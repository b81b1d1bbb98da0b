"""The challenge of a connection: a nonce in INFO, which the client signs with its nkey."""

from __future__ import annotations

import base64
import binascii
import secrets

from headrace.accounts.credentials import Credentials, Refused
from headrace.keys.jwt import decode_base64url, encode_base64url
from headrace.keys.nkeys import InvalidKey, verify

NONCE_BYTES = 11


def new_nonce() -> str:
    """15 characters, never the same twice."""
    return encode_base64url(secrets.token_bytes(NONCE_BYTES))


def check_signature(credentials: Credentials, public_key: str) -> None:
    """Raises Refused unless the client has signed its nonce with this key."""
    if not credentials.sig:
        raise Refused("Signature missing")
    signature = _decode_signature(credentials.sig)
    try:
        is_signed = verify(public_key, credentials.nonce.encode(), signature)
    except InvalidKey as error:
        raise Refused(f"User nkey not valid: {error}") from None
    if not is_signed:
        raise Refused("Signature not verified")


def _decode_signature(text: str) -> bytes:
    """Base64 of either alphabet: without padding in URLs, with it elsewhere, as nats-server has it."""
    try:
        return decode_base64url(text)
    except ValueError:
        pass
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise Refused("Signature not valid base64") from None
