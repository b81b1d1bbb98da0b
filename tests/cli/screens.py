"""A command in a terminal of its own: what it shows, keys, a new size, and what it leaves behind.

The terminal understands the few sequences that our commands write; any other one fails the test.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.cli.commands import COMMAND, SECONDS, environment
from tests.servers import stop

# The first terminal that the leader of a session opens is the one that sends it signals.
ON_TERMINAL = 'exec "$@" <"$0" >"$0" 2>&1'
_SEQUENCE = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])")
_BEGUN = re.compile(r"\x1b(\[\??[\d;]*)?")


class Screen:
    """What a terminal of this size shows after what was written to it."""

    def __init__(self, columns: int, lines: int) -> None:
        self.resize(columns, lines)
        self.alternate = False
        self.cursor_shown = True
        self.erased: list[str] = []
        """Lines that were replaced later."""
        self._begun = ""
        """A sequence of which only a part was read."""

    def resize(self, columns: int, lines: int) -> None:
        """What was written for the old size counts for nothing, up to the next redraw."""
        self.stale = hasattr(self, "rows")
        self.columns, self.height = columns, lines
        self.rows = [""] * lines
        self.row = self.column = 0

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    def feed(self, text: str) -> None:
        text, self._begun, place = self._begun + text, "", 0
        while place < len(text):
            character = text[place]
            if character == "\x1b":
                if _BEGUN.fullmatch(text, place):
                    self._begun = text[place:]
                    return
                found = _SEQUENCE.match(text, place)
                assert found, f"an unknown sequence: {text[place : place + 10]!r}"
                self._apply(*found.groups())
                place = found.end()
                continue
            place += 1
            if self.stale:
                continue
            if character == "\r":
                self.column = 0
            elif character == "\n":
                self._line_feed()
            else:
                self._put(character)

    def _put(self, character: str) -> None:
        assert character.isprintable(), repr(character)
        assert self.column < self.columns, f"a line is too long: {self.rows[self.row]!r}"
        row = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = row[: self.column] + character + row[self.column + 1 :]
        self.column += 1

    def _line_feed(self) -> None:
        if self.row + 1 < self.height:
            self.row += 1
            return
        assert not self.alternate, "it scrolls: too many lines"
        self.rows = [*self.rows[1:], ""]

    def _apply(self, private: str, numbers: str, final: str) -> None:
        if private and numbers == "1049":
            self.alternate = final == "h"
            self.rows, self.row, self.column = [""] * self.height, 0, 0
        elif private and numbers == "25":
            self.cursor_shown = final == "h"
        elif final == "H":
            self.row = self.column = 0
            self.stale = False
        elif self.stale:
            return
        elif final == "K":
            self.erased.append(self.rows[self.row])
            self.rows[self.row] = self.rows[self.row][: self.column]
        elif final == "J":
            rest = self.row + 1 if numbers == "" else 0
            self.rows[rest:] = [""] * (self.height - rest)
        else:
            assert final == "m", f"an unknown sequence: {numbers}{final}"


class TerminalSession:
    """A process whose terminal is ours."""

    def __init__(
        self, arguments: tuple[str, ...], columns: int, lines: int, variables: dict[str, str]
    ) -> None:
        self._master, self._slave = pty.openpty()
        self.screen = Screen(columns, lines)
        self._set_size(columns, lines)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.mode_before = termios.tcgetattr(self._slave)
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", ON_TERMINAL, os.ttyname(self._slave), *COMMAND, *arguments],
            env=environment(**{"TERM": "xterm", **variables}),
            start_new_session=True,
        )

    @property
    def mode(self) -> list[object]:
        return termios.tcgetattr(self._slave)

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(columns, lines)
        self._set_size(columns, lines)  # the kernel sends SIGWINCH

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, *parts: str, absent: str = "") -> str:
        """Until the screen shows all of these, and not the other; what it shows."""
        deadline = time.monotonic() + SECONDS
        while not all(part in self.screen.text for part in parts) or (absent and absent in self.screen.text):
            assert time.monotonic() < deadline, f"no {parts!r} in:\n{self.screen.text}"
            if not self._read(0.05):
                assert self.process.poll() is None, f"ended early:\n{self.screen.text}"
        return self.screen.text

    def wait_until(self, is_so: Callable[[list[str]], bool]) -> list[str]:
        """Until all lines of the screen are as wanted: they may come one after another."""
        deadline = time.monotonic() + SECONDS
        while not is_so(lines := self.screen.rows):
            assert time.monotonic() < deadline, self.screen.text
            if not self._read(0.05):
                assert self.process.poll() is None, f"ended early:\n{self.screen.text}"
        return lines

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if ready:
            self.screen.feed(self._decoder.decode(os.read(self._master, 65536)))
        return bool(ready)

    def end(self) -> int:
        """Read until it has ended; its exit code."""
        deadline = time.monotonic() + SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.screen.text
            self._read(0.02)
        self.read_all()
        return self.process.returncode

    def read_all(self) -> None:
        """What it has written so far."""
        while self._read(0):
            pass

    def close(self) -> None:
        stop(self.process)
        os.close(self._master)
        os.close(self._slave)


@contextmanager
def terminal(
    *arguments: str, columns: int = 80, lines: int = 24, **variables: str
) -> Iterator[TerminalSession]:
    session = TerminalSession(arguments, columns, lines, variables)
    try:
        yield session
    finally:
        session.close()


def read_terminal(master: int) -> str:
    """All that was written to a terminal that nobody has open any more: it need not come at once."""
    written = b""
    with suppress(OSError):  # this is the end
        while piece := os.read(master, 65536):
            written += piece
    os.close(master)
    return written.decode()


def assert_restored(session: TerminalSession) -> None:
    """The terminal is as it was before the command."""
    assert session.mode == session.mode_before
    assert (session.screen.alternate, session.screen.cursor_shown) == (False, True)
