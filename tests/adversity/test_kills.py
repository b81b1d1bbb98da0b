"""kill -9 while messages are published: whatever was acknowledged is there after the restart."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adversity.recorder import Record, check, create_stream, stored_messages
from tests.servers import running_server

SHORT_KILLS = 10
LONG_KILLS = 200
LONGEST_LIFE_SECONDS = 0.4


def survive_kills(directory: Path, kills: int, say: Callable[[str], None]) -> None:
    """The whole test. The seed is printed, so that a failure can be looked at again."""
    seed = random.randrange(1 << 32)
    say(f"seed {seed}")
    chance = random.Random(seed)
    record = Record()
    checked = 0
    flags = ["-js", "-sd", str(directory)]
    for life in range(kills):
        with running_server("headrace", flags=flags) as server:
            if life == 0:
                create_stream(server.port)
            check(record, stored_messages(server.port, checked + 1), first=checked + 1)
            checked = max(record.acknowledged, default=0)
            publishing = threading.Thread(target=record.publish, args=(server.port,))
            publishing.start()
            time.sleep(chance.uniform(0.02, LONGEST_LIFE_SECONDS))
            server.process.kill()
            publishing.join()
    with running_server("headrace", flags=flags) as server:
        check(record, stored_messages(server.port))
    say(f"{kills} kills, {len(record.acknowledged)} acknowledged messages, 0 lost, 0 altered")
    assert len(record.acknowledged) > kills, "hardly anything was published"
    assert not record.errors


def test_acknowledged_messages_survive_kill_9(tmp_path: Path) -> None:
    survive_kills(tmp_path, SHORT_KILLS, print)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_acknowledged_messages_survive_many_kills(tmp_path: Path) -> None:
    survive_kills(tmp_path, LONG_KILLS, print)
