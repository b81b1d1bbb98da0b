"""`-sl SIGNAL=PID`: sends a signal to a running server, found by its process id or by its pid file."""

from __future__ import annotations

import os
import signal

from headrace.errors import UsageError

SIGNALS: dict[str, signal.Signals] = {
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reopen": signal.SIGUSR1,
    "reload": signal.SIGHUP,
    "ldm": signal.SIGUSR2,
}


def send_signal(expression: str) -> None:
    """Sends the signal of `SIGNAL=PID` or `SIGNAL=PIDFILE`. Raises UsageError if that fails.

    nats-server can also find the process by its name; a server in Python shares its process name with every
    other Python program, so here the pid is required.
    """
    command, _, target = expression.partition("=")
    if "=" in target:
        raise UsageError(f"invalid signal parameters: [{target.partition('=')[2]}]")
    if command not in SIGNALS:
        raise UsageError(f'unknown signal "{command}"')
    if not target:
        raise UsageError(f"unable to resolve pid, try providing one: -sl {command}=<pid or pid file>")
    pid = _read_pid(target)
    try:
        os.kill(pid, SIGNALS[command])
    except OSError as error:
        raise UsageError(f'signal "{command}" {pid}: {(error.strerror or str(error)).lower()}') from None


def _read_pid(target: str) -> int:
    try:
        with open(target, encoding="ascii") as file:
            text = file.read(32).strip()
    except (OSError, UnicodeDecodeError):
        text = target
    # 0 and negative numbers are process groups, which is never what a pid file means.
    if not text.isascii() or not text.isdecimal() or len(text) > 10 or int(text) == 0:
        raise UsageError(f"invalid pid: {text}")
    return int(text)
