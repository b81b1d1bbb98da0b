"""Why compressed segments have a codec of their own: `pip install lz4 && python -m benchmarks.codec`.

Both write and read the LZ4 block format. Printed are, for blocks of small JSON events:

    speed     compressing and expanding, by the CPU time of the thread
    busy      a segment compressed in a background thread while the main thread computes all the time, as the
              event loop does under load: the store's threads run without the GIL, a Python thread needs it
              for every block
    damage    how much of a block can be read after one of its bytes has changed
"""

from __future__ import annotations

import importlib
import json
import random
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headrace.engine.segments.codec import compress, expand
from headrace.engine.store.committer import Committer
from headrace.engine.store.log import Log

lz4: Any = importlib.import_module("lz4.block")  # not a dependency

BLOCK = 32768
SEGMENT_BYTES = 4 * 1024 * 1024


def events(size: int) -> bytes:
    """Small JSON events, `size` bytes in all."""
    made = random.Random(1)
    text = bytearray()
    while len(text) < size:
        event = {
            "order": len(text),
            "amount": made.randrange(10**6),
            "status": made.choice(["paid", "sent"]),
        }
        text += json.dumps(event).encode()
    return bytes(text[:size])


def compress_high(block: bytes) -> bytes:
    """The level of lz4 that is next to ours in size."""
    packed: bytes = lz4.compress(block, mode="high_compression", compression=3, store_size=False)
    return packed


def expand_by_package(block: bytes, size: int) -> bytes:
    """Nothing, if the block is damaged so that this can be seen."""
    try:
        expanded: bytes = lz4.decompress(block, uncompressed_size=size)
    except lz4.LZ4BlockError:
        return b""
    return expanded


def rate(work: Callable[[], object], size: int) -> float:
    """MB per second of CPU time: the best of five."""
    times = []
    for _ in range(5):
        begin = time.thread_time()
        work()
        times.append(time.thread_time() - begin)
    return size / min(times) / 1e6


def show_speed(blocks: Sequence[bytes]) -> None:
    size = sum(map(len, blocks))
    for name, pack, unpack in (("ours", compress, expand), ("lz4", compress_high, expand_by_package)):
        packed = [pack(block) or block for block in blocks]
        assert [unpack(block, BLOCK) for block in packed] == list(blocks)
        packing = rate(lambda: [pack(block) for block in blocks], size)  # noqa: B023 (called at once)
        unpacking = rate(lambda: [unpack(block, BLOCK) for block in packed], size)  # noqa: B023
        smaller = size / sum(map(len, packed))
        print(f"speed    {name:5} {smaller:.2f} times smaller, {packing:.0f} MB/s, back {unpacking:.0f} MB/s")


def wait(is_done: Callable[[], bool], *, computing: bool) -> float:
    """Seconds until it is. Computing keeps the GIL until another thread has asked for it for a while."""
    begin = time.perf_counter()
    while not is_done():
        if computing:
            sum(range(50_000))
        else:
            time.sleep(0.001)
    return time.perf_counter() - begin


def pack_in_a_thread(blocks: Sequence[bytes], *, computing: bool) -> float:
    """MB per second."""
    packer = threading.Thread(target=lambda: [compress_high(block) for block in blocks])
    packer.start()
    return SEGMENT_BYTES / wait(lambda: not packer.is_alive(), computing=computing) / 1e6


def pack_in_the_store(blocks: Sequence[bytes], *, computing: bool) -> float:
    """MB per second, from the commit until the segment is indexed, compressed, synced and renamed."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        committer = Committer(2)
        log = Log(directory, committer=committer, segment_bytes=SEGMENT_BYTES, compression="s2")
        log.recover()
        segment = Path(directory) / "000000000001.log"
        committed: list[str | None] = []
        for block in blocks:
            log.append(b"s", b"", block)
        log.when_committed(committed.append)
        while not committed:
            committer.poll()

        def is_compressed() -> bool:
            committer.poll()
            return segment.stat().st_size < SEGMENT_BYTES / 2

        speed = SEGMENT_BYTES / wait(is_compressed, computing=computing) / 1e6
        log.close()
        committer.close()
        return speed


def show_busy(blocks: Sequence[bytes]) -> None:
    for name, pack in (("ours", pack_in_the_store), ("lz4", pack_in_a_thread)):
        idle, busy = (max(pack(blocks, computing=computing) for _ in range(5)) for computing in (False, True))
        print(
            f"busy     {name:5} {idle:.0f} MB/s in the background, {busy:.0f} while the main thread computes"
        )


def show_damage(block: bytes) -> None:
    packed = compress(block)
    assert packed is not None
    for name, unpack in (("ours", expand), ("lz4", expand_by_package)):
        readable = 0
        places = range(0, len(packed), 7)
        for place in places:
            damaged = packed[:place] + bytes([packed[place] ^ 0x55]) + packed[place + 1 :]
            made = unpack(damaged, len(block))
            readable += sum(made[k : k + 128] == block[k : k + 128] for k in range(0, len(block), 128)) * 128
        print(f"damage   {name:5} {100 * readable / len(places) / len(block):.0f} % of a block is readable")


def main() -> None:
    data = events(SEGMENT_BYTES)
    blocks = [data[start : start + BLOCK] for start in range(0, len(data), BLOCK)]
    show_speed(blocks)
    show_damage(blocks[0])
    show_busy(blocks)


if __name__ == "__main__":
    main()
