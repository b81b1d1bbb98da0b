"""The status messages that a pull request is answered with: a header block without a payload."""

from __future__ import annotations


def status(code: int, description: str) -> bytes:
    return f"NATS/1.0 {code} {description}\r\n\r\n".encode()


def status_with_rest(code: int, description: str, messages: int, size: int) -> bytes:
    """With what the request had not been given when it ended."""
    return (
        f"NATS/1.0 {code} {description}\r\n"
        f"Nats-Pending-Messages: {messages}\r\nNats-Pending-Bytes: {size}\r\n\r\n"
    ).encode()


def idle_heartbeat(consumer_seq: int, stream_seq: int, stalled: str = "") -> bytes:
    """Nothing to deliver, but alive. `stalled` is the flow control request that has no answer yet."""
    stall = f"Nats-Consumer-Stalled: {stalled}\r\n" if stalled else ""
    return (
        f"NATS/1.0 100 Idle Heartbeat\r\n"
        f"Nats-Last-Consumer: {consumer_seq}\r\nNats-Last-Stream: {stream_seq}\r\n{stall}\r\n"
    ).encode()
