"""Boxes that only the owner of a curve key can open, in the form of NATS: "xkv1", a nonce, the box.

Sender and receiver each have an X25519 key; the box is NaCl's (XSalsa20 and Poly1305).
"""

from __future__ import annotations

import nacl.bindings
from nacl.exceptions import CryptoError

from headrace.keys.nkeys import InvalidKey, KeyPair, decode_public

VERSION = b"xkv1"
NONCE_BYTES = 24


class CannotOpen(InvalidKey):
    """Not a box, or not one of this sender for this receiver."""


def seal(data: bytes, sender: KeyPair, receiver: str) -> bytes:
    """Raises InvalidKey if the receiver is not a public curve key."""
    nonce = nacl.bindings.randombytes(NONCE_BYTES)
    return VERSION + nonce + nacl.bindings.crypto_box(data, nonce, _curve(receiver), sender.raw_seed)


def open_box(box: bytes, receiver: KeyPair, sender: str) -> bytes:
    """Raises CannotOpen, and InvalidKey if the sender is not a public curve key."""
    if box[: len(VERSION)] != VERSION:
        raise CannotOpen("not an encrypted message")
    nonce = box[len(VERSION) : len(VERSION) + NONCE_BYTES]
    sealed = box[len(VERSION) + NONCE_BYTES :]
    try:
        return nacl.bindings.crypto_box_open(sealed, nonce, _curve(sender), receiver.raw_seed)
    except (CryptoError, ValueError):
        raise CannotOpen("could not decrypt the message") from None


def _curve(public_key: str) -> bytes:
    kind, raw = decode_public(public_key)
    if kind != "curve":
        raise InvalidKey("not a public curve key")
    return raw
