"""Lines for the people who run a query, from the processes in which Spark runs our code.

They go to stderr, which Spark puts into the log of the driver or the executor. A session that drops its log
still shows these lines of it: see `show_notices`.
"""

from __future__ import annotations

import os
import sys
import threading
import time

PREFIX = "headrace: "
POLL_SECONDS = 0.5


def notice(text: str) -> None:
    print(f"{PREFIX}{text}", file=sys.stderr, flush=True)


def warn(text: str) -> None:
    notice(f"warning: {text}")


def show_notices(log: int) -> None:
    """From now on, copy our lines in this file, which another process writes, to stderr."""
    threading.Thread(target=_follow, args=(os.dup(log),), name="notices", daemon=True).start()


def _follow(log: int) -> None:
    place, rest = 0, b""
    while True:
        while read := os.pread(log, 65_536, place):
            place += len(read)
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                if line.startswith(PREFIX.encode()):
                    print(line.decode(errors="replace"), file=sys.stderr, flush=True)
        time.sleep(POLL_SECONDS)
