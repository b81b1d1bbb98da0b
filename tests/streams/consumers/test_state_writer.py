"""Writing the state of consumers in a background thread."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.engine.streams.pending import Pending
from headrace.streams.consumers.on_disk import state as consumer_state
from headrace.streams.consumers.on_disk.state import ConsumerState
from headrace.streams.consumers.on_disk.state_writer import StateWriter

STATE = ConsumerState(7, 9, 3, 4, Pending({5: (4, 100), 9: (7, 200)}), {5: 2})


@pytest.mark.parametrize("sync", [False, True])
async def test_the_last_state_gets_to_the_disk(tmp_path: Path, sync: bool) -> None:
    path = tmp_path / "state"
    writer = StateWriter(str(path), lambda: STATE, pytest.fail, sync=sync)
    writer.changed()
    while not path.exists():
        await asyncio.sleep(0.01)
    assert consumer_state.read(str(path)) == STATE
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]
    writer.close(keep=False)


async def test_a_state_that_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "state"
    writer = StateWriter(str(path), lambda: STATE, pytest.fail, sync=True)
    await writer.flush()
    assert not path.exists()
    writer.changed()
    await writer.flush()
    path.unlink()
    writer.close(keep=True)
    assert not path.exists()


async def test_what_changed_during_a_write_is_written_when_it_is_flushed_or_closed(tmp_path: Path) -> None:
    states = [ConsumerState(number) for number in (4, 3, 2, 1)]
    path = str(tmp_path / "state")
    writer = StateWriter(path, lambda: states.pop(), pytest.fail, sync=False)
    writer.changed()
    flushing = asyncio.ensure_future(writer.flush())
    await asyncio.sleep(0)  # the first one is on its way
    writer.changed()
    await flushing
    await writer.flush()
    assert consumer_state.read(path) == ConsumerState(2)
    writer.changed()
    writer.close(keep=True)
    assert consumer_state.read(path) == ConsumerState(3)


async def test_a_long_state_is_put_together_before_it_is_written(tmp_path: Path) -> None:
    """And if the server stops meanwhile, the state of that moment is what counts."""
    path, may_go_on = str(tmp_path / "state"), asyncio.Event()

    async def put_together() -> ConsumerState:
        await may_go_on.wait()
        return ConsumerState(1)

    writer = StateWriter(path, lambda: STATE, pytest.fail, sync=False, snapshot_slowly=put_together)
    writer.changed()
    flushing = asyncio.ensure_future(writer.flush())
    await asyncio.sleep(0)
    assert consumer_state.read(path) is None
    may_go_on.set()
    await flushing
    assert consumer_state.read(path) == ConsumerState(1)
    may_go_on.clear()
    writer.changed()
    flushing = asyncio.ensure_future(writer.flush())
    await asyncio.sleep(0)
    writer.close(keep=True)
    may_go_on.set()
    await flushing
    assert consumer_state.read(path) == STATE


async def test_a_late_write_never_gets_into_the_directory_of_a_new_consumer(tmp_path: Path) -> None:
    """A consumer is deleted and created again while a thread is writing the old one's state."""
    ours, retired = tmp_path / "C", tmp_path / ".deleted-C"
    ours.mkdir()
    os.mkfifo(ours / "state.new")  # opening it blocks until somebody reads
    writer = StateWriter(str(ours / "state"), lambda: STATE, pytest.fail, sync=False)
    writer.changed()
    while not is_open(ours):
        await asyncio.sleep(0.01)
    writer.close(keep=False)
    ours.rename(retired)
    ours.mkdir()
    (retired / "state.new").read_bytes()
    await writer.flush()
    assert [entry.name for entry in retired.iterdir()] == ["state"]
    assert not list(ours.iterdir())


def is_open(directory: Path) -> bool:
    """Whether this process has a descriptor of the directory."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of listing them
            if descriptor.readlink() == directory:
                return True
    return False


async def test_a_write_that_fails_is_reported_and_tried_again(tmp_path: Path) -> None:
    warned = asyncio.Event()
    directory = tmp_path / "C"
    path = directory / "state"
    writer = StateWriter(str(path), lambda: STATE, lambda _: warned.set(), sync=False)
    writer.changed()
    await warned.wait()
    directory.mkdir()
    while not path.exists():
        await asyncio.sleep(0.01)
    writer.close(keep=False)
