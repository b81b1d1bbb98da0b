"""Standard streams that were closed when the program started."""

from __future__ import annotations

import os
import sys

LAST_STANDARD_STREAM = 2


def open_standard_streams() -> None:
    """Put /dev/null where a standard stream was closed.

    Otherwise a socket would get its number, on which libuv aborts, and there would be nothing to print to.
    """
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= LAST_STANDARD_STREAM:
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, it stays open as long as the program runs
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
