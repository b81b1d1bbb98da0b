"""The state of a consumer on disk: whole or refused, and never ahead of its stream."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.streams.pending import Pending
from headrace.streams import slices
from headrace.streams.consumers.ledger import Ledger
from headrace.streams.consumers.on_disk import state as consumer_state
from headrace.streams.consumers.on_disk.state import ConsumerState
from headrace.streams.slices import Slices

NUMBERS = st.integers(0, 2**64 - 2)
COUNTED = st.integers(0, consumer_state.LARGEST_COUNT)
TIMES = st.integers(-(2**63), 2**63 - 1)
STATES = st.builds(
    ConsumerState,
    COUNTED,
    NUMBERS,
    COUNTED,
    NUMBERS,
    st.builds(Pending, st.dictionaries(NUMBERS, st.tuples(COUNTED, TIMES))),
    st.dictionaries(NUMBERS, COUNTED),
)
SAMPLE = ConsumerState(7, 9, 3, 4, Pending({5: (4, 100), 9: (7, 200)}), {5: 2})


@given(STATES)
def test_a_state_comes_back_as_it_was(state: ConsumerState) -> None:
    assert consumer_state.decode(consumer_state.encode(state)) == state


@pytest.mark.parametrize("count", [0, 1, 15, 16, 70_000])
def test_a_state_of_any_length_comes_back(count: int) -> None:
    state = ConsumerState(count, count, 0, 0, Pending({seq: (seq, seq) for seq in range(1, count + 1)}))
    for seq in range(1, count // 2 + 1):
        state.pending[seq] = (count + seq, count + seq)
        state.redelivered[seq] = 1
    assert consumer_state.decode(consumer_state.encode(state)) == state


def test_every_cut_and_every_flipped_byte_is_noticed() -> None:
    data = consumer_state.encode(SAMPLE)
    for place in range(len(data)):
        with pytest.raises(ValueError, match="damaged"):
            consumer_state.decode(data[:place])
        flipped = bytearray(data)
        flipped[place] ^= 0x40
        with pytest.raises(ValueError, match="damaged"):
            consumer_state.decode(bytes(flipped))


def test_the_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "state")
    assert consumer_state.read(path) is None
    consumer_state.write(path, ConsumerState())
    consumer_state.write(path, SAMPLE, sync=True)
    assert consumer_state.read(path) == SAMPLE
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


def test_a_ledger_is_restored_in_the_order_of_its_deadlines() -> None:
    ledger = Ledger(Pending())
    state = ConsumerState(3, 3, 0, 0, Pending({1: (1, 300), 2: (2, 100), 3: (3, 200)}), {1: 1})
    consumer_state.restore(ledger, state)
    assert [seq for seq, _, _ in ledger.in_time_order()] == [2, 3, 1]
    assert consumer_state.snapshot(ledger) == state


def test_a_state_within_the_stream_is_left_alone() -> None:
    state = ConsumerState(7, 9, 3, 4, Pending({5: (4, 100), 9: (7, 200)}))
    assert not consumer_state.reconcile(state, 9)


@pytest.mark.parametrize("field", ["delivered_consumer", "floor_consumer", "pending"])
def test_a_consumer_sequence_that_nobody_can_reach_is_damage(field: str) -> None:
    """The next delivery would have the number that marks a free place."""
    largest = consumer_state.LARGEST_COUNT
    for number in (largest, largest + 1):
        state = ConsumerState(1, 9, 0, 4)
        setattr(state, field, Pending({9: (number, 1)}) if field == "pending" else number)
        if number == largest:
            assert consumer_state.decode(consumer_state.encode(state)) == state
        else:
            with pytest.raises(ValueError, match="impossible numbers"):
                consumer_state.decode(consumer_state.encode(state))


def test_what_is_pending_beyond_the_end_of_the_stream_is_taken_back() -> None:
    state = ConsumerState(7, 9, 3, 4, Pending({5: (4, 100), 9: (7, 200)}), {5: 2, 9: 1})
    assert consumer_state.reconcile(state, 6)
    assert state == ConsumerState(4, 5, 3, 4, Pending({5: (4, 100)}), {5: 2})


def test_a_floor_beyond_the_end_of_the_stream_comes_down() -> None:
    state = ConsumerState(9, 12, 8, 11, Pending({12: (9, 100)}))
    assert consumer_state.reconcile(state, 10)
    assert state == ConsumerState(9, 10, 9, 10)


OPERATION = st.tuples(st.sampled_from(["deliver", "ack", "renew", "renew all"]), st.integers(1, 40))


@given(st.integers(1, 20), st.sets(st.integers(1, 20)), st.lists(OPERATION, max_size=30))
def test_a_snapshot_in_slices_is_right_whatever_happens_meanwhile(
    delivered: int, acknowledged: set[int], operations: list[tuple[str, int]]
) -> None:
    """Nothing that was delivered and is not acknowledged is missing; nothing delivered later is in it."""
    ledger = Ledger(Pending())
    deliver(ledger, delivered)
    for seq in sorted(acknowledged):
        ledger.acknowledge(seq)
    before = consumer_state.snapshot(ledger)

    async def take() -> ConsumerState:
        taking = asyncio.ensure_future(consumer_state.snapshot_in_slices(ledger, Slices()))
        for operation, seq in operations:
            await asyncio.sleep(0)  # a slice is copied
            if operation == "deliver":
                deliver(ledger, 1)
            elif operation == "ack":
                ledger.acknowledge(seq)
            elif operation == "renew":
                ledger.renew(seq, 1_000 + seq)
            else:  # a round of redeliveries, a part of it at a time
                for some in sorted(ledger.pending)[:seq]:
                    ledger.renew(some, 2_000 + some)
        return await taking

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consumer_state, "STEP_PENDING", 2)
        patch.setattr(slices, "SLICE_SECONDS", -1.0)
        state = asyncio.run(take())
    assert (state.delivered_consumer, state.delivered_stream) == (delivered, delivered)
    assert set(ledger.pending) & set(before.pending) <= set(state.pending) <= set(before.pending)
    assert all(entry[0] == before.pending[seq][0] for seq, entry in state.pending.items())
    oldest = min(state.pending, default=delivered + 1)
    assert state.floor_stream == state.floor_consumer == oldest - 1


async def test_a_snapshot_begins_again_with_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_state, "STEP_PENDING", 2)
    monkeypatch.setattr(slices, "SLICE_SECONDS", -1.0)
    ledger = Ledger(Pending())
    deliver(ledger, 10)
    taking = asyncio.ensure_future(consumer_state.snapshot_in_slices(ledger, Slices()))
    await asyncio.sleep(0)
    ledger.start(20)
    assert await taking == ConsumerState(0, 20, 0, 20)


def deliver(ledger: Ledger, messages: int) -> None:
    for _ in range(messages):
        ledger.delivered_consumer += 1
        ledger.delivered_stream += 1
        ledger.pending[ledger.delivered_stream] = (ledger.delivered_consumer, ledger.delivered_stream)
