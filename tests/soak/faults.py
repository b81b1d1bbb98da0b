"""What happens to the server. Each fault leaves it running, and says when a new life of it begins."""

from __future__ import annotations

import asyncio
import random
import resource
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.adversity.recorder import Connection
from tests.soak.disk import Disk
from tests.soak.findings import Findings
from tests.soak.reading import stream_state
from tests.soak.server import ServerProcess


@dataclass
class Scene:
    """What a fault has to do with."""

    server: ServerProcess
    disk: Disk
    random: random.Random
    findings: Findings
    announce: Callable[[int], Awaitable[None]]
    """Tells all clients that the next life begins, before it does."""

    async def restart(self) -> None:
        await self.announce(self.server.life + 1)
        await asyncio.sleep(self.random.choice((0.0, 0.0, 0.5, 2.0)))
        await self.server.start()


async def kill(scene: Scene) -> None:
    """kill -9, and a restart."""
    scene.server.kill()
    await scene.restart()


async def kill_twice(scene: Scene) -> None:
    """The second time while it recovers, or just after."""
    await kill(scene)
    await asyncio.sleep(scene.random.random() * 0.3)
    await kill(scene)


async def terminate(scene: Scene) -> None:
    """SIGTERM, and a restart."""
    if not await scene.server.terminate():
        scene.findings.add("died", "SIGTERM did not end the server; it was killed")
    await scene.restart()


async def pause(scene: Scene) -> None:
    """SIGSTOP for seconds."""
    scene.server.signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(scene.random.uniform(1, 5))
    finally:
        scene.server.signal(signal.SIGCONT)


async def fill_disk(scene: Scene) -> None:
    """The disk is full for seconds."""
    scene.disk.fill()
    try:
        await asyncio.sleep(scene.random.uniform(2, 6))
    finally:
        scene.disk.free()


async def kill_on_full_disk(scene: Scene) -> None:
    """Killed on a full disk; it starts when there is space again."""
    scene.disk.fill()
    try:
        await asyncio.sleep(scene.random.uniform(0.5, 3))
        scene.server.kill()
    finally:
        scene.disk.free()
    await scene.restart()


async def exhaust_descriptors(scene: Scene) -> None:
    """No file and no connection can be opened for seconds."""
    pid = scene.server.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    vitals = scene.server.vitals()
    if vitals is None:
        return
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (vitals.descriptors, hard))
    try:
        await asyncio.sleep(scene.random.uniform(2, 8))
    finally:
        if scene.server.running():
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


async def exhaust_descriptors_early(scene: Scene) -> None:
    """After a restart, when the clients are back and most files of the streams are not open yet."""
    await terminate(scene)
    await asyncio.sleep(scene.random.uniform(0.3, 1.0))
    await exhaust_descriptors(scene)


async def nothing(scene: Scene) -> None:
    """A stretch without a fault."""


async def interfere(scene: Scene) -> None:
    """Not a fault of the server: removes a message and adds another behind the clients' back.

    So that a test can see the soak fail. A run of `make soak` does not have it.
    """

    def act() -> None:
        with Connection(scene.server.port) as connection:
            state = stream_state(connection, "SMALL")
            for seq in range(state["first_seq"], state["first_seq"] + 10):
                connection.request("$JS.API.STREAM.MSG.DELETE.SMALL", {"seq": seq, "no_erase": True})
            connection.request("SMALL.0", b"forged")

    await asyncio.to_thread(act)


FAULTS: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "kill": kill,
    "two kills": kill_twice,
    "SIGTERM": terminate,
    "SIGSTOP": pause,
    "disk full": fill_disk,
    "kill, disk full": kill_on_full_disk,
    "no descriptors": exhaust_descriptors,
    "few descriptors": exhaust_descriptors_early,
    "nothing": nothing,
}
NOT_BY_DEFAULT: dict[str, Callable[[Scene], Awaitable[None]]] = {"interference": interfere}
NEEDS_A_SMALL_DISK = {"disk full", "kill, disk full"}
