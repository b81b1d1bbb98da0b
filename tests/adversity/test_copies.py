"""A copy of the storage directory, made file by file while the server works, is a backup.

Each file is copied at another moment, in any order, and may be replaced, rewritten or removed meanwhile. What
was acknowledged before the copy began and is not removed until it ends has to be in it, as it was.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.adversity.recorder import Connection
from tests.adversity.storm import Storm
from tests.adversity.zygote import Zygote

SEGMENT_BYTES = 8192
SHORT_COPIES = 8
LONG_COPIES = 300
BLOCK = 2048
SAID = [  # by cp or tar
    "No such file",
    "as it was replaced while being copied",
    "changed as we read it",
    "File removed before we read it",
    "padding with zeros",  # it was cut where its messages end: nothing is taken ahead of a sealed segment
    "Exiting with failure",
]
Copy = Callable[[Path, Path, random.Random], None]


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    made = Zygote(SEGMENT_BYTES, {})
    yield made
    made.close()


def copy_slowly(source: Path, target: Path, chance: random.Random) -> None:
    """Files in any order, a piece at a time. What is gone when its turn comes is left out."""
    target.mkdir(parents=True)
    names = os.listdir(source)
    chance.shuffle(names)
    for name in names:
        time.sleep(chance.choice([0, 0, 0.002, 0.01]))
        try:
            if (source / name).is_dir():
                copy_slowly(source / name, target / name, chance)
            else:
                copy_file(source / name, target / name, chance)
        except FileNotFoundError:
            continue


def copy_file(source: Path, target: Path, chance: random.Random) -> None:
    with source.open("rb", buffering=0) as old, target.open("wb", buffering=0) as new:
        while piece := old.read(BLOCK):
            new.write(piece)
            time.sleep(chance.choice([0, 0, 0, 0.001]))


def copy_with_cp(source: Path, target: Path, chance: random.Random) -> None:
    while "as it was replaced while being copied" in run("cp", "-a", str(source), str(target)):
        shutil.rmtree(target)


def copy_with_tar(source: Path, target: Path, chance: random.Random) -> None:
    archive = target.with_suffix(".tar")
    run("tar", "-C", str(source.parent), "-cf", str(archive), source.name)
    target.mkdir()
    subprocess.run(["tar", "-C", str(target), "--strip-components=1", "-xf", str(archive)], check=True)
    archive.unlink()


def run(*command: str) -> str:
    """Copy, and return what it says. The exit code is 1 if files disappear or change while they are read."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert all(any(said in line for said in SAID) for line in done.stderr.splitlines()), done.stderr
    return done.stderr


COPIES: list[Copy] = [copy_slowly, copy_with_cp, copy_slowly, copy_with_tar]


def check_copy(
    connection: Connection, storm: Storm, before: dict[str, dict[int, int]], gone: dict[str, set[int]]
) -> int:
    """How many messages are back that were removed before."""
    back = 0
    for name, ledger in storm.ledgers.items():
        found = storm.read(connection, name)
        must = {number: seq for number, seq in before[name].items() if number in ledger.sure}
        lost = must.keys() - found.keys()
        assert not lost, f"{name}: {len(lost)} of {len(must)} are lost: {sorted(lost)[:5]}"
        assert all(found[number] == seq for number, seq in must.items())
        assert all(number < storm.next_number for number in found)
        back += len(gone[name] & found.keys())
    return back


def live_and_copy(zygote: Zygote, directory: Path, copies: int, say: Callable[[str], None]) -> None:
    seed = random.randrange(1 << 32)
    say(f"seed {seed}")
    chance = random.Random(seed)
    storm = Storm(chance)
    required = back = 0
    store, copied = directory / "store", directory / "copy"
    with (
        zygote.server(store, directory / "log") as server,
        Connection(server.port()) as connection,
        ThreadPoolExecutor(1) as copier,
    ):
        storm.create(connection)
        for place in range(copies):
            storm.blow(connection, 30)
            before = {name: dict(ledger.sure) for name, ledger in storm.ledgers.items()}
            gone = {name: set(ledger.gone) for name, ledger in storm.ledgers.items()}
            required += sum(map(len, before.values()))
            shutil.rmtree(copied, ignore_errors=True)
            copy = COPIES[place % len(COPIES)]
            copying = copier.submit(copy, store, copied, random.Random(seed + place))
            while not copying.done():
                storm.blow(connection, 3)
            copying.result()
            log = directory / "log of copy"
            with zygote.server(copied, log) as other, Connection(other.port()) as reader:
                back += check_copy(reader, storm, before, gone)
    say(f"{copies} copies of {required} messages in all: 0 lost, {back} removed ones came back")
    assert required > 10 * copies


@pytest.mark.timeout(300)
def test_a_copy_has_everything_that_was_acknowledged_before(zygote: Zygote, tmp_path: Path) -> None:
    live_and_copy(zygote, tmp_path, SHORT_COPIES, print)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_copies_have_everything_that_was_acknowledged_before(zygote: Zygote, tmp_path: Path) -> None:
    live_and_copy(zygote, tmp_path, LONG_COPIES, print)
