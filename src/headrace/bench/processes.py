"""A load that is spread over several processes, for servers that one core of clients cannot keep busy.

Every process opens its connections, reports that it is ready and waits, so that no message is sent before all
subscriptions exist. They share the machine's monotonic clock, so their times can be compared.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from headrace.bench.clients.load import Load
from headrace.bench.failure import BenchError
from headrace.bench.generator import Outcome, Progress, drive

Prepare = Callable[[], AbstractContextManager[Load]]


def drive_in_processes(preparations: Sequence[Prepare], on_progress: Progress | None) -> list[Outcome]:
    """One outcome per preparation, in their order. Raises BenchError if one could not be made ready."""
    context = multiprocessing.get_context("fork")  # a preparation is a closure, which cannot be pickled
    pipes, workers = [], []
    try:
        for number, prepare in enumerate(preparations):
            ours, theirs = context.Pipe()
            worker = context.Process(target=_work, args=(theirs, prepare, _core(number)), daemon=True)
            worker.start()
            theirs.close()
            pipes.append(ours)
            workers.append(worker)
        for pipe in pipes:
            _receive(pipe)
        for pipe in pipes:
            pipe.send("go")
        return _collect(pipes, on_progress)
    finally:
        _end(pipes, workers)


def _work(pipe: Connection, prepare: Prepare, core: int) -> None:
    try:
        with prepare() as load:
            pipe.send(("ready", None))
            pipe.recv()
            pipe.send(("done", drive(load, lambda share: pipe.send(("progress", share)), core)))
    except BenchError as error:
        pipe.send(("failed", str(error)))
    except (EOFError, OSError, KeyboardInterrupt):
        pass  # the parent is gone, or is being interrupted, too, and reports why


def _collect(pipes: list[Connection], on_progress: Progress | None) -> list[Outcome]:
    outcomes: dict[int, Outcome] = {}
    shares = [0.0] * len(pipes)
    while len(outcomes) < len(pipes):
        for pipe in wait([pipe for number, pipe in enumerate(pipes) if number not in outcomes]):
            number = pipes.index(pipe)  # type: ignore[arg-type]
            kind, content = _receive(pipes[number])
            if kind == "done":
                outcomes[number] = content
            shares[number] = 1.0 if kind == "done" else content
            if on_progress:
                on_progress(sum(shares) / len(shares))
    return [outcomes[number] for number in range(len(pipes))]


def _receive(pipe: Connection) -> tuple[str, Any]:
    try:
        kind, content = pipe.recv()
    except EOFError:
        raise BenchError("a process of the generator died") from None
    if kind == "failed":
        raise BenchError(content)
    return kind, content


def _core(number: int) -> int:
    """From the last core downwards; the first is left to the server if there are several."""
    cores = sorted(os.sched_getaffinity(0), reverse=True)
    usable = cores[:-1] or cores
    return usable[number % len(usable)]


def _end(pipes: Sequence[Connection], workers: Sequence[BaseProcess]) -> None:
    for pipe in pipes:
        pipe.close()
    for worker in workers:
        worker.join(1.0)
        if worker.is_alive():
            worker.kill()
            worker.join()
