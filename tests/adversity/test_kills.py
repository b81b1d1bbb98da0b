"""kill -9 at any moment, whatever a server does: what was acknowledged stays, what was removed is gone."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.adversity.recorder import Connection
from tests.adversity.storm import Storm
from tests.adversity.zygote import Zygote

SHORT_KILLS = 50
LONG_KILLS = 1000
MOST_OPERATIONS = 25
LONGEST_MOMENT_SECONDS = 0.05
SEGMENT_BYTES = 8192


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    made = Zygote(SEGMENT_BYTES, {})
    yield made
    made.close()


def survive_kills(zygote: Zygote, directory: Path, kills: int, say: Callable[[str], None]) -> None:
    """The whole test. The seed is printed, so that a failure can be looked at again."""
    seed = random.randrange(1 << 32)
    say(f"seed {seed}")
    chance = random.Random(seed)
    storm = Storm(chance)
    store, log = directory / "store", directory / "log"
    while_starting = 0
    for life in range(kills):
        with zygote.server(store, log) as server:
            if life and chance.random() < 0.1:
                time.sleep(chance.uniform(0, 0.05))  # while it reads its files
                while_starting += 1
                continue
            with Connection(server.port()) as connection:
                if life == 0:
                    storm.create(connection)
                storm.check(connection)
                live(storm, connection, chance, lambda: server.end(signal.SIGKILL))
    with zygote.server(store, log) as server, Connection(server.port()) as connection:
        storm.check(connection)
        storm.check_consumers(connection)
        server.end(signal.SIGTERM)
    say(
        f"{kills} kills ({while_starting} while starting), {storm.acknowledgements} acknowledged messages, "
        f"{sum(len(ledger.gone) for ledger in storm.ledgers.values())} removed: 0 lost, 0 altered, 0 back; "
        + ", ".join(f"{count} {name}" for name, count in sorted(storm.operations.items()))
    )
    assert storm.acknowledgements > 10 * kills, "hardly anything was published"


def live(storm: Storm, connection: Connection, chance: random.Random, end: Callable[[], None]) -> None:
    """Some operations, and a kill at a random moment of those that follow."""
    storm.blow(connection, chance.randrange(MOST_OPERATIONS))
    killer = threading.Timer(chance.uniform(0, LONGEST_MOMENT_SECONDS), end)
    killer.start()
    with suppress(ConnectionError):  # the server is gone, as it should be
        storm.blow(connection, 1 << 62)
    killer.join()


@pytest.mark.timeout(300)
def test_whatever_it_does_nothing_is_lost_by_a_kill(zygote: Zygote, tmp_path: Path) -> None:
    survive_kills(zygote, tmp_path, SHORT_KILLS, print)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_nothing_is_lost_by_many_kills(zygote: Zygote, tmp_path: Path) -> None:
    survive_kills(zygote, tmp_path, LONG_KILLS, print)
