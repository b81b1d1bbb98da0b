"""The process of one client: does what the supervisor writes to its standard input, line by line.

    life N    the server's N-th life is about to begin      -> {"done": "life"}
    go        the habits run                                -> {"done": "go"}
    pause     they have stopped                             -> {"done": "pause"}
    check     everything was read back and compared         -> {"done": "check"}
    stop      the end, as is the end of the input

Once a second it writes what it counted and found: {"counts": ..., "findings": ..., "samples": ...}.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from typing import Any

from tests.soak.actor import Actor
from tests.soak.actors import make_actor
from tests.soak.line import LOST

REPORT_SECONDS = 1.0


async def work(actor: Actor) -> None:
    """Until the input ends. Any error of its own ends the process with a traceback: the soak is then void."""
    asyncio.get_running_loop().set_exception_handler(_on_stray)
    lines = await _input()
    await actor.prepare()
    _say(done="prepare")
    tasks = [asyncio.ensure_future(actor.repeat(habit, seconds)) for habit, seconds in actor.habits()]
    tasks += [asyncio.ensure_future(_obey(actor, lines)), asyncio.ensure_future(_report(actor))]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def _obey(actor: Actor, lines: asyncio.StreamReader) -> None:
    while line := (await lines.readline()).split():
        command = line[0].decode()
        if command == "life":
            actor.life = int(line[1])
        elif command == "go":
            actor.going.set()
        elif command == "pause":
            await actor.pause()
        elif command == "check":
            await actor.check()
            _say(**_news(actor))
        elif command == "stop":
            return
        _say(done=command)


async def _report(actor: Actor) -> None:
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        _say(**_news(actor))


def _news(actor: Actor) -> dict[str, Any]:
    counts = dict(actor.counts)
    counts["acknowledged"] = sum(ledger.acknowledged for ledger in actor.ledgers.values())
    counts["checked"] = sum(ledger.checked for ledger in actor.ledgers.values())
    return {
        "counts": counts,
        "found": dict(actor.findings.counts),
        "findings": actor.findings.take(),
        "samples": actor.take_samples(),
    }


def _on_stray(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tasks of nats-py end with the error of a lost connection, which nobody looks at."""
    if not isinstance(context.get("exception"), LOST):
        loop.default_exception_handler(context)


async def _input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return reader


def _say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor ends it
    name, port, seed, rate = sys.argv[1:]
    try:
        asyncio.run(work_of(name, int(port), int(seed), float(rate)))
    except Exception:
        traceback.print_exc()
        sys.exit(1)


async def work_of(name: str, port: int, seed: int, rate: float) -> None:
    await work(make_actor(name, port, seed, rate))
    os._exit(0)  # all was said, and a thread or a task that still waits for the server is not waited for


if __name__ == "__main__":
    main()
