"""A consumer's state on disk: one small file, replaced as a whole.

    magic  "HRCS1\\n"
    body   msgpack: [delivered consumer, delivered stream, floor consumer, floor stream,
                     [stream, consumer, time, …] of what is pending,
                     [stream, times, …] of what was redelivered]
    check  CRC-32 of magic and body, 4 bytes, little endian

It is written lazily, into a temporary file that is then renamed. So after a crash the state is complete, but
may be older than what clients saw: messages that they had acknowledged are redelivered, none is lost. It may
also be newer than the stream, if the disk lost the end of the stream: `reconcile` then corrects it.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

import msgspec

from headrace.engine.streams.pending import Pending
from headrace.streams import files
from headrace.streams.consumers.ledger import Ledger
from headrace.streams.slices import Slices, steps_of

MAGIC = b"HRCS1\n"
CHECK_BYTES = 4
LARGEST_COUNT = (1 << 63) - 1
"""Consumers count up from 1 and never get here; a larger number is damaged or forged."""
MANY_REDELIVERED = 20_000
MANY_PENDING = 200_000
STEP_PENDING = 5_000
"""Pending messages that are copied in one step; about half a millisecond."""


@dataclass
class ConsumerState:
    delivered_consumer: int = 0
    delivered_stream: int = 0
    floor_consumer: int = 0
    floor_stream: int = 0
    pending: Pending = field(default_factory=Pending)
    redelivered: dict[int, int] = field(default_factory=dict)


def snapshot(ledger: Ledger, *, with_pending: bool = True) -> ConsumerState:
    """A copy that another thread may read."""
    floor_consumer, floor_stream = ledger.floor
    return ConsumerState(
        ledger.delivered_consumer,
        ledger.delivered_stream,
        floor_consumer,
        floor_stream,
        ledger.pending.copy() if with_pending else Pending(),
        dict(ledger.redelivered),
    )


def snapshot_of_many(ledger: Ledger, slices: Slices) -> Awaitable[ConsumerState] | None:
    """A snapshot that takes too long for one turn of the event loop; None if one turn is enough.

    What is pending in order is copied as it is, 200,000 of them in about 2 ms.
    """
    is_long = ledger.pending.out_of_order > MANY_REDELIVERED or len(ledger.pending) > MANY_PENDING
    return snapshot_in_slices(ledger, slices) if is_long else None


async def snapshot_in_slices(ledger: Ledger, slices: Slices) -> ConsumerState:
    """The same for very many pending messages, some in each turn.

    Deliveries in the meantime are not in it, as if they happened later. Acknowledgements in the meantime may
    be in it or not; either way it was delivered.
    """
    while True:
        starts = ledger.starts
        state = snapshot(ledger, with_pending=False)
        if ledger.pending:
            await slices.run(steps_of(_copy_pending(ledger, ledger.pending.lowest(), state)))
        if ledger.starts == starts:  # otherwise the parts do not belong together
            return state


def _copy_pending(ledger: Ledger, first: int, state: ConsumerState) -> Iterator[None]:
    """`first` is the lowest sequence that was pending when the copy began."""
    pending, copied = ledger.pending, state.pending
    oldest = state.delivered_stream + 1
    for some in pending.parts(STEP_PENDING):
        for seq in some:
            if seq <= state.delivered_stream:
                copied[seq] = pending[seq]
                oldest = min(oldest, seq)
        yield
    if oldest != first:  # which was acknowledged meanwhile: the floor is right before the oldest one left
        floor_consumer = copied[oldest][0] - 1 if oldest in copied else state.delivered_consumer
        state.floor_consumer, state.floor_stream = floor_consumer, oldest - 1


def restore(ledger: Ledger, state: ConsumerState) -> None:
    ledger.start(state.delivered_stream)
    ledger.delivered_consumer = state.delivered_consumer
    for seq, entry in sorted(state.pending.items(), key=lambda item: item[1][1]):
        ledger.pending[seq] = entry
    ledger.redelivered.update(state.redelivered)
    ledger.set_floor(state.floor_consumer, state.floor_stream)


def encode(state: ConsumerState) -> bytes:
    """In parts: this may take a while, and the event loop's thread needs the interpreter meanwhile."""
    encode_part = msgspec.msgpack.Encoder().encode
    positions = (state.delivered_consumer, state.delivered_stream, state.floor_consumer, state.floor_stream)
    data = bytearray(MAGIC + _array_head(6))
    data += b"".join(map(encode_part, positions))
    data += _array_head(3 * len(state.pending))
    for part in state.pending.number_parts(STEP_PENDING):
        data += _items(encode_part(part))
    data += _array_head(2 * len(state.redelivered))
    redelivered = chain.from_iterable(state.redelivered.items())
    while part := list(islice(redelivered, 2 * STEP_PENDING)):
        data += _items(encode_part(part))
    return bytes(data) + zlib.crc32(data).to_bytes(CHECK_BYTES, "little")


def _array_head(length: int) -> bytes:
    """Of a MessagePack array with any number of items; the shortest form is not required."""
    return b"\xdd" + length.to_bytes(4, "big")


def _items(array: bytes) -> memoryview:
    """A MessagePack array without its head."""
    return memoryview(array)[{0xDC: 3, 0xDD: 5}.get(array[0], 1) :]


def decode(data: bytes) -> ConsumerState:
    """Raises ValueError for anything that `encode` did not write."""
    body, check = data[:-CHECK_BYTES], data[-CHECK_BYTES:]
    if not body.startswith(MAGIC) or zlib.crc32(body).to_bytes(CHECK_BYTES, "little") != check:
        raise ValueError("the consumer's state is damaged: its checksum is wrong")
    try:
        fields = msgspec.msgpack.decode(
            body[len(MAGIC) :], type=tuple[int, int, int, int, list[int], list[int]]
        )
    except msgspec.MsgspecError as error:
        raise ValueError(f"the consumer's state is damaged: {error}") from error
    delivered_consumer, delivered_stream, floor_consumer, floor_stream, pending, redelivered = fields
    if len(pending) % 3 or len(redelivered) % 2:
        raise ValueError("the consumer's state is damaged: its lists are cut")
    counts = (delivered_consumer, floor_consumer), pending[1::3], redelivered[1::2]
    if max(chain.from_iterable(counts)) > LARGEST_COUNT:
        raise ValueError("the consumer's state is damaged: it has impossible numbers")
    try:
        entries = Pending.from_numbers(pending)
    except OverflowError as error:
        raise ValueError(f"the consumer's state is damaged: {error}") from error
    return ConsumerState(
        delivered_consumer,
        delivered_stream,
        floor_consumer,
        floor_stream,
        entries,
        dict(zip(redelivered[0::2], redelivered[1::2], strict=True)),
    )


def read(path: str) -> ConsumerState | None:
    """None if there is no such file. Raises ValueError if it is damaged, OSError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return decode(file.read())
    except FileNotFoundError:
        return None


def write(path: str, state: ConsumerState, *, sync: bool = False, directory: int | None = None) -> None:
    """Replace the file. Raises OSError.

    Without `sync`, a crash of the machine may restore the previous file, or leave one that cannot be read.
    With `directory`, a descriptor, the path is relative to that directory, even if it was renamed since.
    """
    temporary = path + files.TEMPORARY_SUFFIX
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        with open(os.open(temporary, flags, files.FILE_MODE, dir_fd=directory), "wb") as file:
            file.write(encode(state))
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


def reconcile(state: ConsumerState, last_seq: int) -> bool:
    """Correct a state that is ahead of its stream. Returns whether it was."""
    if state.delivered_stream <= last_seq:
        return False
    if state.floor_stream > last_seq:
        state.floor_consumer, state.floor_stream = state.delivered_consumer, last_seq
        state.pending.clear()
        state.redelivered.clear()
    state.pending = Pending({seq: entry for seq, entry in state.pending.items() if seq <= last_seq})
    state.redelivered = {seq: count for seq, count in state.redelivered.items() if seq <= last_seq}
    if state.pending:
        state.delivered_stream = max(state.pending)
        state.delivered_consumer = max(consumer_seq for _, (consumer_seq, _) in state.pending.items())
    else:
        state.delivered_consumer, state.delivered_stream = state.floor_consumer, state.floor_stream
    return True
