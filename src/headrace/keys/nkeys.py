"""nkeys: Ed25519 keys in the text form of NATS.

    public key    UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4
    seed          SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY

Both are base32 without padding: a prefix that says what the key is for, the 32 bytes, and a CRC16 of it all,
little end first. A seed has two prefix bytes, because it says both that it is a seed and for what.
"""

from __future__ import annotations

import base64
import binascii
from typing import Literal

import nacl.bindings
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from headrace.errors import HeadraceError

Kind = Literal["operator", "account", "user", "server", "cluster", "curve"]

PREFIXES: dict[Kind, int] = {
    "operator": 14 << 3,  # O
    "account": 0,  # A
    "user": 20 << 3,  # U
    "server": 13 << 3,  # N
    "cluster": 2 << 3,  # C
    "curve": 23 << 3,  # X
}
KINDS = {prefix: kind for kind, prefix in PREFIXES.items()}
SEED_PREFIX = 18 << 3  # S
KEY_BYTES = 32
PUBLIC_CHARACTERS = 56
SEED_CHARACTERS = 58


class InvalidKey(HeadraceError):
    """Not a key, or not one of the kind that was asked for. The message never has the key in it."""


class KeyPair:
    """A seed, and what can be done with it: sign and open. It is never shown."""

    __slots__ = ("_seed", "kind", "public_key")

    def __init__(self, kind: Kind, raw_seed: bytes) -> None:
        self.kind = kind
        self._seed = raw_seed
        if kind == "curve":
            self.public_key = encode_public(kind, nacl.bindings.crypto_scalarmult_base(raw_seed))
        else:
            self.public_key = encode_public(kind, bytes(SigningKey(raw_seed).verify_key))

    @classmethod
    def create(cls, kind: Kind) -> KeyPair:
        return cls(kind, nacl.bindings.randombytes(KEY_BYTES))

    @classmethod
    def from_seed(cls, seed: str) -> KeyPair:
        """Raises InvalidKey."""
        decoded = _decode(seed.strip(), SEED_CHARACTERS)
        kind = KINDS.get((decoded[0] & 7) << 5 | (decoded[1] & 248) >> 3)
        if decoded[0] & 248 != SEED_PREFIX or kind is None:
            raise InvalidKey("not a seed of an nkey")
        return cls(kind, decoded[2:])

    @property
    def seed(self) -> str:
        """As text, for a file that its owner asked for."""
        prefix = PREFIXES[self.kind]
        return _encode(bytes([SEED_PREFIX | prefix >> 5, (prefix & 31) << 3]) + self._seed)

    @property
    def raw_seed(self) -> bytes:
        return self._seed

    def sign(self, data: bytes) -> bytes:
        return SigningKey(self._seed).sign(data).signature

    def __repr__(self) -> str:
        return f"KeyPair({self.public_key})"


def verify(public_key: str, data: bytes, signature: bytes) -> bool:
    """Whether the owner of this key has signed the data. Raises InvalidKey if it is not a key."""
    kind, raw = decode_public(public_key)
    if kind == "curve":
        raise InvalidKey("a curve key cannot sign")
    try:
        VerifyKey(raw).verify(data, signature)
    except (BadSignatureError, ValueError):  # the latter: not as long as a signature
        return False
    return True


def encode_public(kind: Kind, raw: bytes) -> str:
    return _encode(bytes([PREFIXES[kind]]) + raw)


def decode_public(public_key: str) -> tuple[Kind, bytes]:
    """What the key is for, and its 32 bytes. Raises InvalidKey."""
    decoded = _decode(public_key, PUBLIC_CHARACTERS)
    kind = KINDS.get(decoded[0])
    if kind is None:
        raise InvalidKey("not a public nkey")
    return kind, decoded[1:]


def is_public(public_key: str, kind: Kind) -> bool:
    """Whether this is a public key of this kind."""
    try:
        return decode_public(public_key)[0] == kind
    except InvalidKey:
        return False


def _encode(prefixed: bytes) -> str:
    checked = prefixed + binascii.crc_hqx(prefixed, 0).to_bytes(2, "little")
    return base64.b32encode(checked).rstrip(b"=").decode()


def _decode(text: str, characters: int) -> bytes:
    """The bytes without the checksum."""
    if len(text) != characters:
        raise InvalidKey("not an nkey: it has another length")
    try:
        decoded = base64.b32decode(text + "=" * (-len(text) % 8))
    except (binascii.Error, ValueError):
        raise InvalidKey("not an nkey: it is not base32") from None
    if binascii.crc_hqx(decoded[:-2], 0) != int.from_bytes(decoded[-2:], "little"):
        raise InvalidKey("not an nkey: its checksum is wrong")
    return decoded[:-2]
