"""What is stored, in pieces: a file, or what is piped in, which may take its time."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import BinaryIO


async def read_piece(source: BinaryIO, size: int) -> bytes:
    """Full but at the end. The wait for a pipe or a terminal can be cancelled, unlike a thread that reads."""
    descriptor = source.fileno()
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)):
        return await asyncio.to_thread(source.read, size)
    piece = bytearray()
    while len(piece) < size:
        await _readable(descriptor)
        data = os.read(descriptor, size - len(piece))
        if not data:
            break
        piece += data
    return bytes(piece)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
