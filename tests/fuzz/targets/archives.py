"""Archives that somebody restores: compressed chunks, their blocks, and the entries in them.

    byte 0    what the rest is: a stream of chunks, the elements of one block, or entries
    byte 1    how the bytes are cut on their way; of a block: the length that it promises
    rest      the bytes

Right is: nothing but Corrupt is raised; how the bytes are cut makes no difference; a block comes out as a
simple reader of the format says, or is refused if that refuses it; what is stored are messages with ascending
sequences and subjects that fit into a line.
"""

from __future__ import annotations

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from headrace.engine.streams.archive import MAGIC, ArchiveReader
from headrace.engine.streams.s2 import Corrupt, Expander
from tests.fuzz.cuts import cut

S2_HEAD = b"\xff\x06\x00\x00S2sTwO"
MOST_BLOCKS = 20
LARGEST = 1000
ALL = Filter(())
Outcome = tuple[list[object], bool]


def _make_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _make_table()


def masked_crc(data: bytes) -> bytes:
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ _TABLE[(value ^ byte) & 255]
    value ^= 0xFFFFFFFF
    return (((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def expand_simply(data: bytes, length: int) -> bytes | None:
    """The elements of a block; None if they are not `length` bytes."""
    out = bytearray()
    at = offset = 0

    def take(size: int) -> int:
        nonlocal at
        if at + size > len(data):
            raise ValueError
        at += size
        return int.from_bytes(data[at - size : at], "little")

    try:
        while at < len(data):
            tag = take(1)
            if tag & 3 == 0:
                size = tag >> 2
                size = 1 + (size if size < 60 else take(size - 59))
                if at + size > len(data):
                    return None
                out += data[at : at + size]
                at += size
                continue
            if tag & 3 == 1:
                near = take(1) | (tag & 0xE0) << 3
                size = 4 + (tag >> 2 & 7)
                if near:
                    offset = near
                elif size >= 9:
                    size = 4 + take(size - 8) + {9: 4, 10: 1 << 8, 11: 1 << 16}[size]
            else:
                size, offset = 1 + (tag >> 2), take(2 if tag & 3 == 2 else 4)
            if offset == 0 or offset > len(out) or len(out) + size > length:
                return None
            for _ in range(size):
                out.append(out[-offset])
    except ValueError:
        return None
    return bytes(out) if len(out) == length else None


def check_block(length: int, elements: bytes) -> None:
    plain = expand_simply(elements, length)
    varint = bytes([length & 0x7F | 0x80, length >> 7]) if length >= 0x80 else bytes([length])
    body = masked_crc(plain or b"") + varint + elements
    expander = Expander()
    expander.feed(S2_HEAD + b"\0" + len(body).to_bytes(3, "little") + body)
    try:
        found = expander.next()
    except Corrupt:
        found = None
    assert found == plain, (found, plain)


def expand(pieces: list[bytes]) -> Outcome:
    expander = Expander()
    blocks: list[object] = []
    try:
        for piece in pieces:
            expander.feed(piece)
            while (block := expander.next()) is not None:
                if len(blocks) == MOST_BLOCKS:
                    return blocks, False
                blocks.append(block)
    except Corrupt:
        return blocks, False
    return blocks, expander.is_between_chunks


def read(pieces: list[bytes]) -> Outcome:
    reader, log = ArchiveReader(), Log()
    is_valid = True
    try:
        for piece in pieces:
            reader.feed(piece)
            while reader.store(log, LARGEST, 2) and not reader.is_complete:
                pass
    except Corrupt:
        is_valid = False
    log.commit()
    stored: list[object] = []
    seq = 0
    while (message := log.next(seq + 1, ALL)) is not None:
        assert message.seq > seq
        assert not set(message.subject) & set(b" \t\r\n\0"), message.subject
        seq = message.seq
        stored.append((seq, message.time, message.subject, message.headers, message.payload))
        if seq == (1 << 64) - 2:
            break
    return stored, is_valid and reader.is_complete


def check(data: bytes) -> None:
    if len(data) < 2:
        return
    kind, seed, rest = data[0] % 3, data[1], data[2:]
    if kind == 0:
        assert expand([S2_HEAD + rest]) == expand([S2_HEAD, *cut(rest, seed)])
    elif kind == 1:
        check_block(seed, rest)
    else:
        assert read([MAGIC + rest]) == read([MAGIC, *cut(rest, seed)])
