"""Power loss: what the disk holds at some moment is all that is left. Every acknowledged message is in it.

The store is on an ext4 image on a loop device. While a publisher is at it, the server is stopped for a
moment and the image is copied: what the kernel has not written to it by then is lost. The copy is mounted as
the disk after the power came back. Needs root; skipped where images cannot be mounted.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.adversity.recorder import Connection, Record, check, create_stream, stored_messages
from tests.adversity.zygote import Zygote

SHORT_LOSSES = 5
LONG_LOSSES = 200
IMAGE_MEGABYTES = 48
SEGMENT_BYTES = 64 * 1024
MOST_MESSAGES = 20_000


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    made = Zygote(SEGMENT_BYTES, {})
    yield made
    made.close()


def make_image(path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("needs root and mkfs.ext4")
    with path.open("wb") as file:
        file.truncate(IMAGE_MEGABYTES << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(path)], check=True)


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-o", "loop", str(image), str(place)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"an image cannot be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def survive_losses(zygote: Zygote, directory: Path, losses: int) -> None:
    """One server publishes all the time; the power fails again and again in copies of its disk."""
    chance = random.Random(losses)
    image, copy = directory / "image", directory / "copy"
    make_image(image)
    record = Record()
    checked = 0
    with (
        mounted(image, directory / "disk") as disk,
        zygote.server(disk / "store", directory / "log") as server,
    ):
        port = server.port()
        create_stream(port, max_msgs=MOST_MESSAGES, compression="s2")
        for _ in range(losses):
            publishing = threading.Thread(target=record.publish, args=(port,), kwargs={"count": 400})
            publishing.start()
            time.sleep(chance.uniform(0, 0.1))
            os.kill(server.pid, signal.SIGSTOP)
            promised = dict(record.acknowledged)  # before the moment of the copy
            shutil.copyfile(image, copy)
            os.kill(server.pid, signal.SIGCONT)
            checked += look(zygote, directory, promised)
            publishing.join()
        with Connection(port) as connection:
            assert "error" not in connection.request("$JS.API.STREAM.INFO.CRASH")
    print(f"{losses} power losses, {len(record.acknowledged)} messages, {checked} checks: 0 lost, 0 altered")


def look(zygote: Zygote, directory: Path, promised: dict[int, int]) -> int:
    """Start a server on what is left, and compare."""
    with (
        mounted(directory / "copy", directory / "after") as disk,
        zygote.server(disk / "store", directory / "log-after") as server,
    ):
        stored = stored_messages(server.port())
        first, last = min(stored, default=1), max(stored, default=0)
        assert last >= max(promised, default=0), "acknowledged messages are missing at the end"
        # What was stored and not acknowledged yet has displaced as many at the beginning.
        kept = {seq: number for seq, number in promised.items() if seq > last - MOST_MESSAGES}
        assert not kept or first <= min(kept), "acknowledged messages are missing at the beginning"
        check(Record(acknowledged=kept), stored, first=first)
        return len(kept)


@pytest.mark.timeout(300)
def test_acknowledged_messages_survive_a_power_loss(zygote: Zygote, tmp_path: Path) -> None:
    survive_losses(zygote, tmp_path, SHORT_LOSSES)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_acknowledged_messages_survive_many_power_losses(zygote: Zygote, tmp_path: Path) -> None:
    survive_losses(zygote, tmp_path, LONG_LOSSES)
