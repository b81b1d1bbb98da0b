"""A log that changes without a pause, in a process of its own, and a journal of what is certain about it.

`python -m tests.client.stream_at_work DIRECTORY JOURNAL SEED`, until its stdin ends. A line of the journal is
written before a removal begins (`removing`), and after something is on disk (`added`, `removed`).
"""

from __future__ import annotations

import random
import select
import sys
from collections.abc import Iterable
from pathlib import Path

from headrace.engine.store.log import Log
from tests.engine.store.logs import settle


def payload(seq: int) -> bytes:
    return b"message %d " % seq * (1 + seq * 7919 % 23)


def main(directory: str, journal_path: str, seed: int) -> None:
    choose = random.Random(seed)
    log = Log(directory, segment_bytes=4096)
    log.recover()
    with Path(journal_path).open("a", buffering=1) as journal:

        def note(what: str, seqs: Iterable[int]) -> None:
            journal.write(f"{what} {' '.join(map(str, seqs))}\n")

        while not select.select([sys.stdin], [], [], 0)[0]:
            added = [log.append(b"a", b"", payload(log.last_seq + 1)) for _ in range(choose.randint(1, 40))]
            assert settle(log, None) is None
            note("added", added)
            count = min(log.count, choose.choice([1, 5, 40]))
            first = choose.randint(log.first_seq, log.last_seq)
            removed = list(range(first, min(first + count, log.last_seq + 1)))
            if log.count > 300:
                removed += range(log.first_seq, log.first_seq + log.count - 300)
            note("removing", removed)
            for seq in removed:
                log.remove(seq, erase=choose.random() < 0.2)
            assert settle(log, None) is None
            note("removed", removed)
            log.configure(compression=choose.choice(["none", "s2"]))
        log.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
