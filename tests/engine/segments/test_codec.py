"""The codec of compressed segments: round trips, another reader of the format, and input of any kind."""

from __future__ import annotations

import ctypes
import json
import mmap
import random

import pyarrow
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.engine.segments.codec import compress, expand, expand_at

PAGE = mmap.PAGESIZE
OTHER = pyarrow.Codec("lz4_raw")
PIECES = st.one_of(
    st.binary(max_size=40),
    st.tuples(st.binary(min_size=1, max_size=20), st.integers(1, 400)).map(lambda run: run[0] * run[1]),
    st.sampled_from([b'{"order": 1234, "status": "paid"}', bytes(70), b"x" * 300]),
)
BLOCKS = st.lists(PIECES, max_size=30).map(lambda pieces: b"".join(pieces)[:65536])


def events(count: int) -> bytes:
    made = random.Random(count)
    return b"".join(
        json.dumps(
            {"order": k, "amount": made.randrange(10**6), "status": made.choice(["paid", "sent"])}
        ).encode()
        for k in range(count)
    )


@settings(max_examples=200, deadline=None)
@given(BLOCKS)
@example(bytes(65536))
@example(b"ab" * 32768)
@example(events(900)[:65536])
@example(random.Random(1).randbytes(65536))
@example(b"")
def test_what_is_compressed_comes_back(block: bytes) -> None:
    packed = compress(block)
    if packed is None:
        return
    assert len(packed) < len(block)
    assert expand(packed, len(block)) == block
    assert OTHER.decompress(packed, len(block), asbytes=True) == block


@settings(max_examples=200, deadline=None)
@given(BLOCKS)
@example(events(900)[:65536])
def test_what_others_compressed_can_be_expanded(block: bytes) -> None:
    assert expand(OTHER.compress(block, asbytes=True), len(block)) == block


def test_events_become_much_smaller_and_noise_does_not() -> None:
    block = events(900)[:32768]
    packed = compress(block)
    assert packed is not None
    assert len(packed) < len(block) / 3
    assert compress(random.Random(1).randbytes(32768)) is None
    with pytest.raises(ValueError, match="64 KiB"):
        compress(bytes(65537))


class Fence:
    """Memory that ends where the process dies if it goes on."""

    def __init__(self, pages: int) -> None:
        self.map = mmap.mmap(-1, (pages + 1) * PAGE)
        self.end = ctypes.addressof(ctypes.c_char.from_buffer(self.map)) + pages * PAGE
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(self.end), ctypes.c_size_t(PAGE), ctypes.c_int(0)) == 0


@pytest.fixture(scope="module")
def fences() -> tuple[Fence, Fence]:
    return Fence(17), Fence(17)


def expand_fenced(fences: tuple[Fence, Fence], packed: bytes, size: int) -> bytes:
    """Input and output end at a fence each, and what is before the output must not change."""
    source, target = fences[0].end - len(packed), fences[1].end - size
    ctypes.memmove(source, packed, len(packed))
    ctypes.memset(target - 64, 0xA5, 64 + size)
    made = expand_at(source, len(packed), target, size, size)
    assert made <= size
    assert ctypes.string_at(target - 64, 64) == b"\xa5" * 64
    expanded = ctypes.string_at(target, made)
    # To stop early gives the beginning of the same.
    some = expand_at(source, len(packed), target, size, made // 2)
    assert made // 2 <= some <= made
    assert ctypes.string_at(target, some) == expanded[:some]
    return expanded


def test_mutated_input_never_leaves_its_bounds(fences: tuple[Fence, Fence]) -> None:
    made = random.Random(7)
    blocks = [events(60), b"ab" * 3000, bytes(500), events(20) + made.randbytes(300) + events(20)]
    packed_blocks = [(block, packed) for block in blocks if (packed := compress(block)) is not None]
    assert len(packed_blocks) == len(blocks)
    for _ in range(5000):
        block, packed = made.choice(packed_blocks)
        assert expand_fenced(fences, packed, len(block)) == block
        broken = bytearray(packed)
        for _ in range(made.randrange(1, 4)):
            broken[made.randrange(len(broken))] = made.choice([0, 1, 15, 0xF0, 0xFF, made.randrange(256)])
        cut = bytes(broken[: made.choice([len(broken), made.randrange(len(broken) + 1)])])
        expand_fenced(fences, cut, made.choice([len(block), made.randrange(len(block) + 1)]))


@settings(max_examples=300, deadline=None)
@given(noise=st.binary(max_size=300), size=st.integers(0, 2000))
def test_rubbish_never_leaves_its_bounds(fences: tuple[Fence, Fence], noise: bytes, size: int) -> None:
    expand_fenced(fences, noise, size)
