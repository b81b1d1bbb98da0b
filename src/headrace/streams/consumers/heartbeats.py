"""Idle heartbeats: a status that says that the consumer is alive and has nothing to deliver.

A push consumer sends them if its configuration has an `idle_heartbeat`, a pull consumer for requests that
ask for them.
"""

from __future__ import annotations

from headrace.streams.consumers.core import Core


def send_heartbeat(core: Core, subject: bytes, stalled: str = "") -> None:
    """The heartbeat says how far the consumer is. `stalled` is the unanswered flow control request."""
    stall = f"Nats-Consumer-Stalled: {stalled}\r\n" if stalled else ""
    text = (
        f"NATS/1.0 100 Idle Heartbeat\r\n"
        f"Nats-Last-Consumer: {core.cursor.delivered_seq}\r\n"
        f"Nats-Last-Stream: {core.cursor.next_seq - 1}\r\n{stall}\r\n"
    )
    core.send_status(subject, text.encode())


def schedule_heartbeat(core: Core) -> None:
    """Something was delivered: the next one is due after this long without another delivery."""
    if core.config.idle_heartbeat:
        core.alarm.set("heartbeat", core.now() + core.config.idle_heartbeat)
