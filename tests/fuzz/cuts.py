"""How an input is cut into the pieces in which it arrives."""

from __future__ import annotations

MOST_PIECES = 5  # each costs more than its bytes


def cut(data: bytes, seed: int) -> list[bytes]:
    """The same pieces for the same seed: all of equal length, or of lengths that look random."""
    size = seed % 16
    if size:
        size = max(size, len(data) // MOST_PIECES + 1)
        return [data[at : at + size] for at in range(0, len(data), size)]
    pieces = []
    at, state = 0, seed + 1
    while at < len(data) and len(pieces) < MOST_PIECES:
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        length = 1 + (state >> 16) % (2 + len(data) // 4)
        pieces.append(data[at : at + length])
        at += length
    return [*pieces, data[at:]]
