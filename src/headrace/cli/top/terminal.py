"""The terminal while `headrace top` has it: single keys, another screen, no cursor; and as it was before.

It is given back on every way out that a process can see: the end of the `with` block, an exception, SIGTERM,
SIGHUP, Ctrl-C, and while the program is stopped with Ctrl-Z. Curses is not used: its description of the
terminal may not be installed, and these few sequences are understood everywhere.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import signal
import sys
import termios
from collections.abc import Iterator
from types import FrameType

ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
LEAVE = "\x1b[?25h\x1b[?1049l"
HOME, ERASE_LINE, ERASE_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
BOLD, REVERSE, PLAIN = "\x1b[1m", "\x1b[7m", "\x1b[0m"
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
KEYS = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x03": "quit",
    "\x04": "quit",
    "\x1a": "stop",
    "\x1b": "escape",
}
_KEY = re.compile(r"\x1b\[[\d;]*[A-Za-z~]|\x1bO.|.", re.DOTALL)


class Terminal:
    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._output = sys.stdout.fileno()
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: list[object] | None = None
        self.ended = False
        """Whether a signal wants the program to end, or the terminal is gone."""

    def __enter__(self) -> Terminal:
        for number in ENDS:
            signal.signal(number, self._on_end)
        signal.signal(signal.SIGWINCH, self._on_wake)
        signal.signal(signal.SIGCONT, self._on_wake)
        signal.signal(signal.SIGTSTP, self._on_stop)
        self._selector.register(self._input, selectors.EVENT_READ)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._take()
        return self

    def __exit__(self, *error: object) -> None:
        self._give_back()

    def _take(self) -> None:
        self._before = termios.tcgetattr(self._input)
        mode = termios.tcgetattr(self._input)
        mode[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
        termios.tcsetattr(self._input, termios.TCSADRAIN, mode)
        self._write(ENTER)

    def _give_back(self) -> None:
        """However far `_take` came, and although the terminal may be gone."""
        with contextlib.suppress(OSError):
            self._write(LEAVE)
        if self._before is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]

    def stop(self) -> None:
        """As Ctrl-Z does. Returns when the shell lets the program go on."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()

    def wake(self) -> None:
        """End a `wait`, from any thread."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"w")

    def _on_end(self, number: int, frame: FrameType | None) -> None:
        self.ended = True
        self.wake()

    def _on_wake(self, number: int, frame: FrameType | None) -> None:
        self.wake()

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop()
        self.wake()

    def wait(self, seconds: float) -> list[str]:
        """Keys that were pressed, perhaps none: a signal, `wake`, or nothing within this time."""
        keys: list[str] = []
        for ready, _ in self._selector.select(max(0.0, seconds)):
            if ready.fd == self._wake_read:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
                continue
            try:
                data = os.read(self._input, 4096)
            except OSError:
                data = b""
            self.ended = self.ended or not data
            keys += parse_keys(data.decode(errors="replace"))
        return keys

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        with contextlib.suppress(OSError):
            found = os.get_terminal_size(self._output)
            if found.columns and found.lines:
                return found.columns, found.lines
        fallback = shutil.get_terminal_size()
        return fallback.columns, fallback.lines

    def draw(self, lines: list[str], decorated: dict[int, str]) -> None:
        """Replace what is shown. `decorated` has an escape sequence for some lines."""
        shown = [
            f"{decorated[number]}{line}{PLAIN}" if number in decorated else line
            for number, line in enumerate(lines)
        ]
        self._write(HOME + f"{ERASE_LINE}\r\n".join(shown) + ERASE_LINE + ERASE_BELOW)

    def _write(self, text: str) -> None:
        data = text.encode(errors="replace")
        while data:
            data = data[os.write(self._output, data) :]


def parse_keys(text: str) -> Iterator[str]:
    """Names of special keys, and characters as they are. An unknown sequence counts for nothing."""
    for key in _KEY.findall(text):
        if key in KEYS or len(key) == 1:
            yield KEYS.get(key, key)
