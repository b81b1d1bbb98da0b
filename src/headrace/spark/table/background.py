"""Work on a table that no batch has to wait for: one piece at a time, in its own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """An exception in it is raised by the next `run`, in the thread of the query, which then fails as if it
    had done the work itself."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    def check(self) -> None:
        """Raises what the last piece of work has raised."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def run(self, work: Callable[[], None]) -> None:
        """Start it, unless the last piece is still running: then this one is skipped."""
        if self._thread is None or not self._thread.is_alive():
            # A daemon thread: stopping a query does not wait for it. It can be interrupted at any moment.
            self._thread = threading.Thread(target=self._do, args=(work,), name="table upkeep", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # the edge of the thread
            self._failure = error
