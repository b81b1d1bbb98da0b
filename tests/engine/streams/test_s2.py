"""The compression of backups: round trips, other readers of the format, what S2 adds, input of any kind."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

import pyarrow
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.engine.streams.s2 import STREAM_HEAD, Corrupt, Expander, compress

SNAPPY = pyarrow.Codec("snappy")
S2_HEAD = b"\xff\x06\x00\x00S2sTwO"
BLOCK = 65536
PIECES = st.one_of(
    st.binary(max_size=40),
    st.tuples(st.binary(min_size=1, max_size=20), st.integers(1, 400)).map(lambda run: run[0] * run[1]),
    st.sampled_from([b'{"order": 1234, "status": "paid"}', bytes(70), b"x" * 300]),
)
TEXTS = st.lists(PIECES, max_size=60).map(b"".join)


def crc(data: bytes) -> bytes:
    """Masked, as the format wants it; bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    value ^= 0xFFFFFFFF
    return (((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def chunk(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + len(body).to_bytes(3, "little") + body


def compressed(elements: bytes, plain: bytes, *, length: int | None = None) -> bytes:
    size = len(plain) if length is None else length
    varint = bytearray()
    while size >= 0x80:
        varint.append(size & 0x7F | 0x80)
        size >>= 7
    return chunk(0, crc(plain) + bytes(varint) + bytes([size]) + elements)


def chunks_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        size = int.from_bytes(data[1:4], "little")
        yield data[0], data[4 : 4 + size]
        data = data[4 + size :]


def expand(data: bytes, piece: int = 0) -> bytes:
    expander = Expander()
    found = bytearray()
    for start in range(0, len(data), piece or len(data) or 1):
        expander.feed(data[start : start + (piece or len(data))])
        while (block := expander.next()) is not None:
            found += block
    assert expander.is_between_chunks
    return bytes(found)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
@example(bytes(BLOCK))
@example(b"ab" * BLOCK)
@example(random.Random(1).randbytes(3 * BLOCK + 1))
@example(bytes(64) + random.Random(2).randbytes(500) * 200)
def test_what_is_compressed_comes_back_and_other_readers_can_read_it(text: bytes) -> None:
    packed = compress(text)
    assert expand(STREAM_HEAD + packed) == text
    plain = b""
    for kind, body in chunks_of(packed):
        if kind == 1:
            plain += body[4:]
        else:
            size = min(BLOCK, len(text) - len(plain))
            plain += SNAPPY.decompress(body[4:], size).to_pybytes()
    assert plain == text


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_what_others_compress_can_be_read(text: bytes) -> None:
    text = text[:2000]
    body = SNAPPY.compress(text).to_pybytes()
    assert expand(STREAM_HEAD + chunk(0, crc(text) + body)) == text


def test_compressible_text_becomes_smaller_and_random_bytes_hardly_larger() -> None:
    text = b'{"order": 1234, "status": "paid"}' * 10_000
    assert len(compress(text)) < len(text) // 15
    noise = random.Random(3).randbytes(200_000)
    assert len(compress(noise)) < len(noise) + 50


@pytest.mark.parametrize("room", [1, 30, 31, 1000])
def test_small_blocks_are_read_together(room: int) -> None:
    expander = Expander()
    assert expander.read(room) is None
    expander.feed(STREAM_HEAD + b"".join(compress(b"block %03d " % number) for number in range(20)) + b"\0")
    parts = list(iter(lambda: expander.read(room), None))
    assert b"".join(parts) == b"".join(b"block %03d " % number for number in range(20))
    assert all(room <= len(part) < room + 10 for part in parts[:-1])


@pytest.mark.parametrize("piece", [1, 3, 7, 1000])
def test_pieces_may_end_anywhere(piece: int) -> None:
    text = b"some text, " * 1000
    data = STREAM_HEAD + compress(text) + chunk(0xFE, bytes(50)) + chunk(0x99, b"index") + compress(text)
    assert expand(data, piece) == text * 2


@pytest.mark.parametrize(
    ("elements", "plain"),
    [
        (b"\x0cabcd" + b"\x01\x04" + b"\x01\x00", b"abcd" + b"abcd" + b"abcd"),  # a repeat of 4
        (b"\x0cabcd" + b"\x01\x04" + b"\x15\x00\x02", b"abcd" * 2 + b"abcdabcdab"),  # 4 + 4 + 2
        (b"\x0cabcd" + b"\x01\x04" + b"\x19\x00\x02\x01", b"abcd" * 2 + (b"abcd" * 130)[:518]),
        (b"\x0cabcd" + b"\x01\x04" + b"\x1d\x00\x01\x00\x00", b"abcd" * 2 + (b"abcd" * 16386)[:65541]),
        (b"\x0cabcd" + b"\x0f\x04\x00\x00\x00", b"abcdabcd"),  # an offset of four bytes
    ],
)
def test_the_extensions_of_s2_are_read(elements: bytes, plain: bytes) -> None:
    assert expand(S2_HEAD + compressed(elements, plain)) == plain


WRONG = {
    "no identifier": chunk(1, crc(b"x") + b"x"),
    "another identifier": chunk(0xFF, b"snappy"),
    "unknown kind": S2_HEAD + chunk(2, b"x"),
    "no checksum": S2_HEAD + chunk(1, b"x"),
    "wrong checksum": S2_HEAD + chunk(1, crc(b"y") + b"x"),
    "no length": S2_HEAD + chunk(0, crc(b"")),
    "endless length": S2_HEAD + chunk(0, crc(b"") + b"\xff" * 9),
    "length above 4 MiB": S2_HEAD + compressed(b"\x00a", b"a", length=4 * 1024 * 1024 + 1),
    "less than promised": S2_HEAD + compressed(b"\x00a", b"a", length=2),
    "more than promised": S2_HEAD + compressed(b"\x04ab", b"a"),
    "repeat without a copy": S2_HEAD + compressed(b"\x0cabcd\x01\x00", b"abcd" * 2),
    "offset before the start": S2_HEAD + compressed(b"\x0cabcd\x01\x05", b"abcd" * 2),
    "literal cut": S2_HEAD + compressed(b"\x0cabc", b"abcd"),
    "literal length cut": S2_HEAD + compressed(b"\xfcab", b"abcd"),
    "largest literal": S2_HEAD + compressed(b"\xfc\xff\xff\xff\xff", b"abcd"),
    "copy cut": S2_HEAD + compressed(b"\x0cabcd\x02\x04", b"abcd" * 2),
    "repeat cut": S2_HEAD + compressed(b"\x0cabcd\x01\x04\x1d\x00\x01", b"abcd" * 2),
    "copy too long": S2_HEAD + compressed(b"\x0cabcd\x01\x04\x1d\x00\xff\xff\xff", b"abcd" * 2),
    "chunk too large": S2_HEAD + chunk(1, bytes(6 * 1024 * 1024)),
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG.keys())
def test_what_is_not_of_the_format_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupt):
        expand(data)


@settings(max_examples=500, deadline=None)
@given(TEXTS, st.data())
def test_damage_is_found(text: bytes, data: st.DataObject) -> None:
    packed = bytearray(STREAM_HEAD + compress(text))
    place = data.draw(st.integers(0, len(packed) - 1))
    packed[place] ^= 1 << data.draw(st.integers(0, 7))
    expander = Expander()
    expander.feed(bytes(packed))
    found = b""
    try:
        while (block := expander.next()) is not None:
            found += block
    except Corrupt:
        return
    # A damaged length makes it wait for more, a damaged kind may turn a chunk into one to be skipped.
    assert text.startswith(found) or not expander.is_between_chunks or packed[place] >= 0x80


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 100_000))
def test_no_input_is_read_or_written_outside_of_its_bounds(elements: bytes, length: int) -> None:
    """What comes out does not matter; the sanitizers watch."""
    expander = Expander()
    expander.feed(S2_HEAD + compressed(elements, b"", length=length))
    with suppress(Corrupt):
        expander.next()


def test_a_bomb_comes_in_small_pieces() -> None:
    """Few bytes that say 4 MiB are 4 MiB at a time, however often they say it."""
    size = 4 * 1024 * 1024
    plain = bytes(size)
    repeat = b"\x1d\x00" + (size - 8 - 4 - 65536).to_bytes(3, "little")
    bomb = compressed(b"\x0c\x00\x00\x00\x00\x01\x04" + repeat, plain[:1], length=size)
    expander = Expander()
    expander.feed(STREAM_HEAD + bomb.replace(crc(b"\0"), masked_zeros(size)) * 100)
    assert expander.next() == plain


def masked_zeros(size: int) -> bytes:
    """The checksum of that many zeros: a CRC is linear, so the bytes need not be looked at one by one."""
    value = 0xFFFFFFFF
    step = _zero_operator()
    for bit in range(size.bit_length()):
        if size >> bit & 1:
            value = _apply(step, value)
        step = [_apply(step, column) for column in step]
    value ^= 0xFFFFFFFF
    return (((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def _zero_operator() -> list[int]:
    """What one byte of zeros does to each bit of a CRC."""
    columns = []
    for bit in range(32):
        value = 1 << bit
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        columns.append(value)
    return columns


def _apply(columns: list[int], value: int) -> int:
    result = 0
    for bit, column in enumerate(columns):
        if value >> bit & 1:
            result ^= column
    return result
