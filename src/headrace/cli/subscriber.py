"""The work of `headrace sub`: subscribe, print messages, and end at the right time."""

from __future__ import annotations

import asyncio
import os
import stat
import sys

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headrace.cli.messages import Format
from headrace.cli.nats_connection import Interrupted, connect, describe_dropped
from headrace.cli.output import give_up_stdout, plural, say
from headrace.cli.target import Target


class Printer:
    """Writes messages to stdout. `finished` is set after the last one, or when nobody reads any more."""

    def __init__(self, form: Format, count: int | None) -> None:
        self.received = 0
        self.last_at = 0.0
        self.finished = asyncio.Event()
        self.subscription: Subscription | None = None
        self._format = form
        self._count = count
        self._output = sys.stdout.buffer

    async def on_message(self, message: Msg) -> None:
        if self.finished.is_set():
            return
        self.received += 1
        self.last_at = asyncio.get_running_loop().time()
        try:
            self._output.write(self._format(self.received, message))
            if self.received == self._count:
                self.finished.set()
            if self.finished.is_set() or self.subscription is None or not self.subscription.pending_msgs:
                self._output.flush()  # once per burst
        except BrokenPipeError:
            self.on_reader_gone()

    def watch_reader(self) -> None:
        """End as soon as the reader of a pipe is gone (`| head -1`), not only at the next message."""
        descriptor = self._output.fileno()
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            # The write end of a pipe is never readable: what is reported is that its other end was closed.
            asyncio.get_running_loop().add_reader(descriptor, self.on_reader_gone)

    def on_reader_gone(self) -> None:
        asyncio.get_running_loop().remove_reader(self._output.fileno())
        give_up_stdout()
        self.finished.set()


async def subscribe(
    target: Target, subject: str, queue: str, count: int | None, timeout: float | None, printer: Printer
) -> int:
    """The exit code."""
    loop = asyncio.get_running_loop()
    async with connect(target) as connection:
        printer.watch_reader()
        subscription = await connection.client.subscribe(subject, queue, cb=printer.on_message)
        printer.subscription = subscription
        if count:
            await subscription.unsubscribe(limit=count)
        await connection.flush()
        group = f" in queue group {queue}" if queue else ""
        say(f"subscribed to {subject}{group} at {connection.address}; Ctrl-C stops")
        printer.last_at = loop.time()
        try:
            while not printer.finished.is_set():
                rest = None if timeout is None else printer.last_at + timeout - loop.time()
                if rest is not None and rest <= 0:
                    break
                try:
                    await connection.wait_for(printer.finished.wait(), rest)
                except TimeoutError:
                    continue
        except Interrupted:
            count = None
        finally:
            missing = bool(count) and not printer.finished.is_set()
            summary = _summary(printer.received, count if missing else None, timeout)
            say(summary + describe_dropped(connection))
        if missing:
            return 1
    return 0


def _summary(received: int, wanted: int | None, timeout: float | None) -> str:
    """`wanted` is how many were expected, if some are missing."""
    if wanted is None or timeout is None:
        return f"{plural(received, 'message')} received"
    return f"no message for {timeout:g} s: {received} of {plural(wanted, 'message')} received"
