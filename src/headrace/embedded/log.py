"""The server's log as records of Python's `logging`, under the name `headrace`."""

from __future__ import annotations

import logging

from headrace.logs import Logger, LogSettings, one_line

LEVELS = {
    "TRC": logging.DEBUG,
    "DBG": logging.DEBUG,
    "INF": logging.INFO,
    "WRN": logging.WARNING,
    "ERR": logging.ERROR,
    "FTL": logging.CRITICAL,
}
OBVIOUS = ("Plaintext passwords",)
"""Not worth a warning: the password is in the program, next to the server that it is for."""


class PythonLogger(Logger):
    """The program's handlers decide what becomes of a line. They run in the server's thread."""

    def __init__(self, settings: LogSettings) -> None:
        super().__init__(settings)
        self._log = logging.getLogger("headrace")

    def warn(self, text: str) -> None:
        if not text.startswith(OBVIOUS):
            super().warn(text)

    def _put(self, label: str, text: str) -> None:
        self._log.log(LEVELS[label], "%s", one_line(text))
