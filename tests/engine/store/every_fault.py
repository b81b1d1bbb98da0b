"""A day of a log again and again, each time another call fails: `python -m ... <directory> <share> <what>`.

`what` is "files" or "memory". The first day is recorded: it says how many calls of each kind there are.
`share` 1 lets every one of them fail, with every error that it can have, once and from then on; 10 a tenth.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.engine.store.fault_library import ERRORS, FOR_EVER, Faults, Kind, name_of
from tests.engine.store.log_days import Day

LONGEST_SECONDS = 20
# After these a log may want to be opened anew before it goes on writing.
NEEDS_RESTART = {Kind.SYNC, Kind.SYNC_DIRECTORY}


@dataclass(frozen=True)
class Case:
    kind: Kind
    error: int
    call: int
    persistent: bool

    def __str__(self) -> str:
        return (
            f"{self.kind.name} {name_of(self.error)} at {self.call}{' and after' if self.persistent else ''}"
        )


def cases(counts: dict[Kind, int]) -> Iterator[Case]:
    for kind, count in counts.items():
        for error in ERRORS[kind]:
            for call in range(1, count + 1):
                yield Case(kind, error, call, persistent=False)
                if error != errno.EINTR:
                    yield Case(kind, error, call, persistent=True)


def spend_day(faults: Faults, directory: str, case: Case | None) -> tuple[str, dict[Kind, int]]:
    day = Day(directory)
    faults.begin()
    if case is not None:
        faults.arm(case.kind, case.call, FOR_EVER if case.persistent else case.call, case.error)
    day.live()
    counts = {kind: faults.count(kind) for kind in Kind}
    hits = faults.hits
    faults.disarm()
    faults.forward(120)
    outcome = day.end()
    assert case is None or hits or outcome == "nobody noticed"
    if outcome == "needed a restart":
        assert case is not None
        assert case.kind in NEEDS_RESTART or case.error == errno.EIO, "it did not go on by itself"
    return outcome, counts


def in_child(faults: Faults, directory: str, case: Case) -> str:
    """The outcome; a line that begins with FAILED if it was none."""
    shutil.rmtree(directory, ignore_errors=True)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(LONGEST_SECONDS)
        try:
            text = spend_day(faults, directory, case)[0]
        except BaseException:  # whatever it is, the parent reports it
            faults.disarm()
            text = f"FAILED: {traceback.format_exc()}"
        os.write(writing, text.encode()[:60000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        text = told.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"FAILED: killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return text


def main(directory: str, share: int, what: str) -> int:
    faults = Faults()
    faults.find_engine()
    faults.watch(directory)
    _, counts = spend_day(faults, directory, None)
    counts = {kind: count for kind, count in counts.items() if (kind == Kind.MEMORY) == (what == "memory")}
    outcomes: dict[tuple[str, str], Counter[str]] = {}
    failed: list[str] = []
    for number, case in enumerate(cases(counts)):
        if number % share:
            continue
        outcome = in_child(faults, directory, case)
        if outcome.startswith("FAILED"):
            failed.append(f"{case}: {outcome}")
            outcome = "FAILED"
        outcomes.setdefault((case.kind.name, name_of(case.error)), Counter())[outcome] += 1
    shutil.rmtree(directory, ignore_errors=True)
    for (kind, error), counted in outcomes.items():
        print(f"{kind:15} {error:10} {sum(counted.values()):5} cases: "
              + ", ".join(f"{count} {outcome}" for outcome, count in counted.most_common()))  # fmt: skip
    total = sum(sum(counted.values()) for counted in outcomes.values())
    print(f"{total} cases of {sum(1 for _ in cases(counts))}, {len(failed)} failed")
    for line in failed[:30]:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
