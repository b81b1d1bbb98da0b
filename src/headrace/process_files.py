"""Files for other programs to find a running server: its process id, and its ports.

Only files that this server has written are ever removed: a second server that fails to start must not remove
those of the first.
"""

from __future__ import annotations

import contextlib
import json
import os

from headrace.errors import UsageError

Ports = dict[str, list[str]]


class ProcessFiles:
    """What was written so far; an empty path means no file."""

    def __init__(self) -> None:
        self._pid_file = ""
        self._ports_file = ""

    def write_pid(self, path: str) -> None:
        """Replaces the file that was written before. Raises UsageError; then that one stays."""
        if path:
            try:
                _write(path, _own_pid())
            except OSError as error:
                reason = (error.strerror or "").lower()
                raise UsageError(f"Could not write pidfile: open {path}: {reason}") from None
        if self._pid_file != path:
            self._remove_pid()
        self._pid_file = path

    def write_ports(self, directory: str, ports: Ports) -> None:
        """Replaces the file that was written before. Raises OSError; then there is none."""
        self._remove_ports()
        if directory:
            path = os.path.join(directory, f"nats-server_{_own_pid()}.ports")
            _write(path, json.dumps(ports))
            self._ports_file = path

    def remove(self) -> None:
        self._remove_pid()
        self._remove_ports()

    def _remove_pid(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._pid_file and _read(self._pid_file) == _own_pid():
                os.remove(self._pid_file)
        self._pid_file = ""

    def _remove_ports(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._ports_file:
                os.remove(self._ports_file)
        self._ports_file = ""


def _own_pid() -> str:
    return str(os.getpid())


def _read(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read(32)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
