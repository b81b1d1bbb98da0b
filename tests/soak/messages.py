"""Messages that prove by themselves which they are and that they are whole."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

ID_HEADER = "Soak-Id"
SHORTEST_DIGEST = 8


@dataclass(frozen=True)
class Stored:
    """A message as it was read back."""

    seq: int
    subject: str
    headers: bytes
    payload: bytes


def payload_of(stream: str, identity: str, size: int) -> bytes:
    """The one payload that this message of this stream can have; somewhat longer if the size is too small."""
    head = f"{stream} {identity} {size} ".encode()
    digest = blake2b(head, digest_size=32).hexdigest().encode()
    missing = max(SHORTEST_DIGEST, size - len(head))
    return head + (digest * (missing // len(digest) + 1))[:missing]


def identity_of(stream: str, headers: bytes, payload: bytes) -> str | None:
    """Which message it is, or None if it is not one that was published to this stream."""
    if not payload:  # a marker: has nothing but its header
        return header(headers, ID_HEADER)
    words = payload[:300].split(b" ", 3)
    if len(words) < 3 or words[0] != stream.encode() or not words[2].isdigit():
        return None
    identity = words[1].decode(errors="replace")
    return identity if payload_of(stream, identity, int(words[2])) == payload else None


def header(headers: bytes, name: str) -> str | None:
    for line in headers.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.decode(errors="replace").lower() == name.lower():
            return value.strip().decode(errors="replace")
    return None
