"""The format of small files with a checksum: the configurations of streams and consumers.

A checked file is one line `headrace <version> <CRC-32 of the rest>` and then the body.
"""

from __future__ import annotations

import zlib

MAGIC = b"headrace"
VERSION = b"1"


def with_checksum(body: bytes) -> bytes:
    return b"%s %s %08x\n%s" % (MAGIC, VERSION, zlib.crc32(body), body)


def body_of(data: bytes) -> bytes:
    """What was given to `with_checksum`. Raises ValueError, which says what is wrong."""
    head, line_end, body = data.partition(b"\n")
    parts = head.split(b" ")
    if not line_end or len(parts) != 3 or parts[0] != MAGIC:
        raise ValueError("not a file of this server")
    if parts[1] != VERSION:
        raise ValueError("written by another version")
    if parts[2] != b"%08x" % zlib.crc32(body):
        raise ValueError("damaged, its checksum does not match")
    return body
