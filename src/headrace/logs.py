"""The server's log, line for line as nats-server prints it, to stderr or to a file.

    [71234] 2026/11/15 20:08:35.123456 [INF] Server is ready
    [71234] [INF] Server is ready                                  with logtime off

Logging must never block the server: the process that started it may never read its stderr. So a line is only
put into a queue here, and a background thread writes the queue, many lines with one system call. The queue is
bounded in bytes. When it is full, lines are dropped and counted, and the count is reported as soon as there
is room again.

Control characters in a text, which may come from a peer, are escaped, so a text is always one line. Callers
keep secrets out of texts.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import stat
import threading
import time
from collections import deque
from dataclasses import dataclass

from headrace.errors import ConfigError

MAX_QUEUED_BYTES = 4 * 1024 * 1024
MAX_WRITE_BYTES = 64 * 1024
CLOSE_TIMEOUT_SECONDS = 2.0
LOG_FILE_MODE = 0o640
STDERR = 2

_COLORS = {"INF": "32", "DBG": "36", "WRN": "0;93", "ERR": "31", "FTL": "31", "TRC": "33"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class _Output:
    """The output of the following lines in the queue: a descriptor, and whether to close it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.descriptor = _open_file(path) if path else STDERR
        self.size = os.fstat(self.descriptor).st_size if path else 0

    def close(self) -> None:
        if self.path:
            with contextlib.suppress(OSError):
                os.close(self.descriptor)


@dataclass(frozen=True)
class LogSettings:
    """The log options of a configuration."""

    path: str = ""  # empty: stderr
    debug: bool = False
    trace: bool = False
    logtime: bool = True
    utc: bool = False
    size_limit: int = 0
    max_files: int = 0


class Logger:
    """One log for the whole server.

    `debug_enabled` and `trace_enabled` are cheap to test before building a text.
    """

    def __init__(self, settings: LogSettings) -> None:
        """Raises ConfigError if the log file cannot be opened."""
        self._ready = threading.Condition()
        self._queue: deque[bytes | _Output] = deque()
        self._queued_bytes = 0
        self._dropped = 0
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._output = _Output("")
        self.path = ""
        self.configure(settings)

    def configure(self, settings: LogSettings) -> None:
        """Changes everything at once, for a configuration reload. Raises ConfigError and changes nothing."""
        if settings.path != self.path:
            output = _Output(settings.path)
            with self._ready:
                self._queue.append(output)
        self.path = settings.path
        self.debug_enabled = settings.debug
        self.trace_enabled = settings.trace
        self._size_limit = settings.size_limit
        self._max_files = settings.max_files
        self._stamp = _Stamp(settings.utc) if settings.logtime else None
        self._prefix = f"[{os.getpid()}] "
        colored = not self.path and not os.environ.get("NO_COLOR") and _is_terminal()
        self._labels = {
            name: f"[\x1b[{color}m{name}\x1b[0m] " if colored else f"[{name}] "
            for name, color in _COLORS.items()
        }

    def info(self, text: str) -> None:
        self._put("INF", text)

    def warn(self, text: str) -> None:
        self._put("WRN", text)

    def error(self, text: str) -> None:
        self._put("ERR", text)

    def debug(self, text: str) -> None:
        if self.debug_enabled:
            self._put("DBG", text)

    def trace(self, text: str) -> None:
        if self.trace_enabled:
            self._put("TRC", text)

    def fatal(self, text: str) -> None:
        """Logs why the server cannot continue, and flushes.

        The caller must end the process.
        """
        self._put("FTL", text)
        self.flush()

    def reopen(self) -> None:
        """Reopens the log file after it was moved (SIGUSR1)."""
        if not self.path:
            self.info("File log re-open ignored, not a file logger")
            return
        try:
            output = _Output(self.path)
        except ConfigError as error:
            self.error(f"Unable to re-open the logfile: {error}")
            return
        with self._ready:
            self._queue.append(output)
        self.info("File log re-opened")

    def flush(self, timeout: float = CLOSE_TIMEOUT_SECONDS) -> bool:
        """Waits until all lines so far are written, at most `timeout` seconds; returns whether they are."""
        with self._ready:
            if self._thread is None:
                return True  # there was no line yet
            return self._ready.wait_for(lambda: not self._queue and not self._busy, timeout)

    def close(self, timeout: float = CLOSE_TIMEOUT_SECONDS) -> None:
        """Flushes and stops. Later lines are dropped."""
        self.flush(timeout)
        with self._ready:
            self._closed = True
            thread = self._thread
            self._ready.notify_all()
        if thread is not None:
            thread.join(timeout)  # if nobody reads our stderr it stays blocked, and ends with the process
            return
        for output in self._queue:
            if isinstance(output, _Output):
                output.close()

    # The caller's side of the queue

    def _put(self, label: str, text: str) -> None:
        line = self._format(label, text)
        with self._ready:
            if self._closed or self._queued_bytes + len(line) > MAX_QUEUED_BYTES:
                self._dropped += 1
                return
            self._queue.append(line)
            self._queued_bytes += len(line)
            if self._thread is None:
                # Not before the first line, so that a program may fork between creating its logger and using
                # it.
                self._thread = threading.Thread(target=self._write_forever, name="headrace-log", daemon=True)
                self._thread.start()
            self._ready.notify_all()

    def _format(self, label: str, text: str) -> bytes:
        stamp = self._stamp.now() if self._stamp is not None else ""
        line = f"{self._prefix}{stamp}{self._labels[label]}{one_line(text)}\n"
        return line.encode("utf-8", "backslashreplace")

    # The writer's side

    def _write_forever(self) -> None:
        while True:
            with self._ready:
                self._busy = False
                self._ready.notify_all()
                self._ready.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    self._output.close()
                    return
                self._busy = True
                output, batch = self._take_batch()
            if output is not None:
                self._output.close()
                self._output = output
            if batch:
                self._write(batch)
                self._rotate_if_full()

    def _take_batch(self) -> tuple[_Output | None, bytes]:
        """The next lines up to a change of output, or that change. The lock is held."""
        if isinstance(self._queue[0], _Output):
            output = self._queue.popleft()
            assert isinstance(output, _Output)
            return output, b""
        lines: list[bytes] = []
        size = 0
        while self._queue and size < MAX_WRITE_BYTES:
            line = self._queue[0]
            if isinstance(line, _Output):
                break
            self._queue.popleft()
            lines.append(line)
            size += len(line)
        self._queued_bytes -= size
        if self._dropped:
            lines.append(
                self._format(
                    "WRN", f"{self._dropped} log lines were dropped: the log is not read fast enough"
                )
            )
            self._dropped = 0
        return None, b"".join(lines)

    def _write(self, batch: bytes) -> None:
        """All of it, or as much as goes. A log that cannot be written must not stop the server."""
        view = memoryview(batch)
        while view:
            try:
                written = os.write(self._output.descriptor, view)
            except BlockingIOError:  # stderr may be shared with a program that made it non-blocking
                select.select([], [self._output.descriptor], [])
                continue
            except OSError:
                return
            self._output.size += written
            view = view[written:]

    # Rotation by size

    def _rotate_if_full(self) -> None:
        output = self._output
        if not output.path or self._size_limit <= 0 or output.size <= self._size_limit:
            return
        now = time.time_ns()
        moment = time.strftime("%Y.%m.%d.%H.%M.%S", time.localtime(now // 10**9))
        backup = f"{output.path}.{moment}.{now % 10**9:09d}"
        try:
            os.rename(output.path, backup)
            self._output = _Output(output.path)
        except (OSError, ConfigError) as error:
            output.size = 0  # try again after as much as the limit
            self._write(self._format("ERR", f"Unable to rotate the logfile: {error}"))
            return
        output.close()
        self._write(self._format("INF", f'Rotated log, backup saved as "{backup}"'))
        if self._max_files > 0:
            self._purge(output.path)

    def _purge(self, path: str) -> None:
        """Removes the oldest backups; the log itself counts as one of `max_files`."""
        directory, name = os.path.split(path)
        pattern = re.compile(re.escape(name) + r"\.\d{4}(\.\d\d){5}\.\d{9}")
        try:
            backups = sorted(entry for entry in os.listdir(directory or ".") if pattern.fullmatch(entry))
            for backup in backups[: max(len(backups) - (self._max_files - 1), 0)]:
                os.remove(os.path.join(directory, backup))
                self._write(self._format("INF", f'Purged log file "{backup}"'))
        except OSError as error:
            self._write(self._format("ERR", f"Unable to purge old log files, will try again: {error}"))


Log = Logger
"""The name under which programs have imported it so far; a `log` elsewhere in the package holds messages."""


def one_line(text: str) -> str:
    """With control characters escaped."""
    return text if text.isprintable() else _CONTROL.sub(lambda match: repr(match.group())[1:-1], text)


class _Stamp:
    """The time in a line. The part down to the second is formatted once a second."""

    def __init__(self, utc: bool) -> None:
        self._split = time.gmtime if utc else time.localtime
        self._second_and_text = (-1, "")

    def now(self) -> str:
        second, nanoseconds = divmod(time.time_ns(), 10**9)
        cached, text = self._second_and_text
        if second != cached:
            text = time.strftime("%Y/%m/%d %H:%M:%S", self._split(second))
            self._second_and_text = (second, text)  # one assignment: two threads may be here
        return f"{text}.{nanoseconds // 1000:06d} "


def _open_file(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, LOG_FILE_MODE)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"error opening file: open {path}: {reason}") from None


def _is_terminal() -> bool:
    try:
        return stat.S_ISCHR(os.fstat(STDERR).st_mode)
    except OSError:
        return False
