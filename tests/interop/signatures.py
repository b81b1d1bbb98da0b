"""Signatures in sessions. A nonce differs for every connection, so a session cannot hold its signature; it
has `<sign:SEED>` instead, which is replaced when the step is played:

    connect_line(nkey=pair.public_key, sig=signature(pair))
"""

from __future__ import annotations

import base64
import re

from headrace.keys.nkeys import KeyPair

_NONCE = re.compile(rb'"nonce":\s*"([^"]*)"')
_PLACEHOLDER = re.compile(rb"<sign(-padded)?:([A-Z0-9]+)>")


def signature(pair: KeyPair, *, padded: bool = False) -> str:
    """Stands for the signature of the connection's nonce, in base64url without padding or base64 with it."""
    return f"<sign{'-padded' if padded else ''}:{pair.seed}>"


def find_nonce(info: bytes) -> bytes:
    found = _NONCE.search(info)
    return found.group(1) if found else b""


def fill_in_signatures(data: bytes, nonce: bytes) -> bytes:
    def sign(match: re.Match[bytes]) -> bytes:
        signed = KeyPair.from_seed(match.group(2).decode()).sign(nonce)
        if match.group(1):
            return base64.b64encode(signed)
        return base64.urlsafe_b64encode(signed).rstrip(b"=")

    return _PLACEHOLDER.sub(sign, data)
