"""Writing the state of consumers beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.streams import consumer_state
from headrace.streams.consumer_state import ConsumerState
from headrace.streams.consumer_writer import StateWriter

STATE = ConsumerState(7, 9, 3, 4, {5: (4, 100), 9: (7, 200)}, {5: 2})


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


async def test_a_late_write_never_gets_into_the_directory_of_a_new_consumer(tmp_path: Path) -> None:
    """A consumer is deleted and created again while a thread is about to write the old one's state."""
    taken, may_write = asyncio.Event(), threading.Event()

    def take() -> ConsumerState:
        taken.set()
        return STATE

    ours, retired = tmp_path / "C", tmp_path / ".deleted-C"
    ours.mkdir()
    with ThreadPoolExecutor(1) as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        threads.submit(may_write.wait)
        writer = StateWriter(str(ours / "state"), take, pytest.fail, sync=False)
        writer.changed()
        await taken.wait()
        ours.rename(retired)
        ours.mkdir()
        may_write.set()
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
    assert consumer_state.read(str(retired / "state")) == STATE
    assert not list(ours.iterdir())
    writer.close(keep=False)


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
