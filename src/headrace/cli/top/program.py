"""`headrace top` on a terminal: ask the server every so often, draw, and react to keys at once.

The server is asked in a thread: while it does not answer, keys and a new size still count.
"""

from __future__ import annotations

import os
import threading
import time

from headrace.cli.monitor_port import MonitorPort
from headrace.cli.top.figures import CONNECTIONS, STREAMS, Request, Snapshot, take
from headrace.cli.top.terminal import BOLD, REVERSE, Terminal
from headrace.cli.top.view import Look, screen
from headrace.errors import HeadraceError

LINE_OF_TITLES = 7
LINE_OF_PROMPT = 5
MOST_CONNECTIONS = 100_000
ASKING_SECONDS = 1.0


class Program:
    def __init__(
        self, port: MonitorPort, look: Look, interval: float, refreshes: int, first: Snapshot
    ) -> None:
        self._port = port
        self._look = look
        self._interval = interval
        self._refreshes = refreshes
        self._snapshot = first
        self._error = ""
        self._message = ""
        self._typed: str | None = None
        self._asked = ""
        self._next = time.monotonic() + interval
        self._asking = False
        self._plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"

    def run(self) -> int:
        with Terminal() as terminal:
            drawn = 1
            while not terminal.ended:
                self._draw(terminal)
                if self._refreshes and drawn >= self._refreshes:
                    break
                before = self._snapshot
                for key in terminal.wait(self._rest()):
                    if not self._on_key(key, terminal):
                        return 0
                if time.monotonic() >= self._next and not self._asking:
                    self._ask(terminal)
                drawn += self._snapshot is not before
        return 0

    def _rest(self) -> float:
        """Until the server is asked again; while it is, its answer ends the wait."""
        return ASKING_SECONDS if self._asking else max(0.0, self._next - time.monotonic())

    # -- asking -------------------------------------------------------------------------------------------

    def _ask(self, terminal: Terminal) -> None:
        self._asking = True
        # A request that hangs must not keep the program from ending.
        threading.Thread(target=self._answer, args=(self._wanted(), terminal), daemon=True).start()

    def _answer(self, request: Request, terminal: Terminal) -> None:
        try:
            self._snapshot = take(self._port, request, self._snapshot)
            self._error = ""
        except HeadraceError as error:
            self._error = str(error)
        finally:
            self._next = time.monotonic() + (self._interval if request == self._wanted() else 0)
            self._asking = False
            terminal.wake()

    def _wanted(self) -> Request:
        look = self._look
        order = look.connection_order if look.view == CONNECTIONS else "cid"
        return Request(look.view, order, look.limit, look.subscriptions)

    # -- drawing ------------------------------------------------------------------------------------------

    def _draw(self, terminal: Terminal) -> None:
        look = self._look
        look.prompt = f"{self._asked}: {self._typed}" if self._typed is not None else self._message
        width, height = terminal.size
        lines = screen(self._snapshot, look, self._error, width, height)
        decorated = {} if look.help or self._plain else {0: BOLD, LINE_OF_TITLES: REVERSE}
        if not look.help and not self._plain and lines[LINE_OF_PROMPT : LINE_OF_PROMPT + 1] not in ([], [""]):
            decorated[LINE_OF_PROMPT] = BOLD
        terminal.draw(lines, decorated)

    # -- keys ---------------------------------------------------------------------------------------------

    def _on_key(self, key: str, terminal: Terminal) -> bool:
        """Whether to go on."""
        look, self._message = self._look, ""
        if key == "quit" or (key == "q" and self._typed is None and not look.help):
            return False
        if key == "stop":
            terminal.stop()
        elif look.help:
            look.help = False
        elif self._typed is not None:
            self._on_typing(key)
        else:
            self._on_command(key, terminal.size[1])
        return True

    def _on_command(self, key: str, height: int) -> None:
        look, page = self._look, max(1, height - 10)
        if key in ("\t", "c", "t"):
            other = STREAMS if look.view == CONNECTIONS else CONNECTIONS
            look.view = {"c": CONNECTIONS, "t": STREAMS}.get(key, other)
            look.first_row = 0
        elif key in ("<", ">"):
            place = look.orders.index(look.order) + (1 if key == ">" else -1)
            look.sort_by(look.orders[place % len(look.orders)])
        elif key in ("o", "n"):
            self._typed = ""
            self._asked = f"sort by [{look.order}]" if key == "o" else f"limit [{look.limit}]"
        elif key == "s":
            look.subscriptions = not look.subscriptions
        elif key == "b":
            look.raw = not look.raw
        elif key == " ":
            look.rates = not look.rates
        elif key in ("?", "h"):
            look.help = True
        steps = {"up": -1, "down": 1, "page up": -page, "page down": page, "home": -(10**9), "end": 10**9}
        look.first_row = max(0, look.first_row + steps.get(key, 0))
        if self._snapshot.request != self._wanted():
            self._next = 0.0  # what is shown is not what is wanted: ask now

    def _on_typing(self, key: str) -> None:
        assert self._typed is not None
        if key == "enter":
            self._accept(self._typed.strip())
            self._typed = None
            self._next = 0.0
        elif key == "escape":
            self._typed = None
        elif key == "backspace":
            self._typed = self._typed[:-1]
        elif len(key) == 1 and key.isprintable():
            self._typed += key

    def _accept(self, text: str) -> None:
        look = self._look
        if not text:
            return
        if self._asked.startswith("sort"):
            if text in look.orders:
                look.sort_by(text)
            else:
                self._message = f"no order {text}: {', '.join(look.orders)}"
        elif text.isdecimal() and 0 < int(text) <= MOST_CONNECTIONS:
            look.limit = int(text)
        else:
            self._message = f"{text} is not a number of connections"
