"""Reads what a server sends to a client: plain and slow, so that tests compare meaning as well as bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Frame:
    """One operation. Of a MSG or HMSG also the parts; `payload` is without the headers."""

    operation: str
    argument: bytes = b""
    subject: bytes = b""
    sid: bytes = b""
    reply: bytes = b""
    headers: bytes = b""
    payload: bytes = b""


def read_frames(data: bytes) -> tuple[list[Frame], bytes]:
    """All complete operations, and the bytes of the one that is not. Raises ValueError on anything else."""
    frames: list[Frame] = []
    at = 0
    while True:
        newline = data.find(b"\r\n", at)
        if newline < 0:
            return frames, data[at:]
        line = data[at:newline]
        body = newline + 2
        name, _, argument = line.partition(b" ")
        operation = name.decode()
        if operation in ("MSG", "HMSG"):
            sizes = 2 if operation == "HMSG" else 1
            words = argument.split(b" ")
            if len(words) not in (2 + sizes, 3 + sizes):
                raise ValueError(f"not a {operation}: {line!r}")
            size = int(words[-1])
            header_end = body + (int(words[-2]) if operation == "HMSG" else 0)
            if len(data) < body + size + 2:
                return frames, data[at:]
            if data[body + size : body + size + 2] != b"\r\n":
                raise ValueError(f"the payload of {line!r} does not end where it should")
            frames.append(
                Frame(
                    operation,
                    argument,
                    subject=words[0],
                    sid=words[1],
                    reply=words[2] if len(words) == 3 + sizes else b"",
                    headers=data[body:header_end],
                    payload=data[header_end : body + size],
                )
            )
            at = body + size + 2
        elif operation in ("PING", "PONG", "+OK", "-ERR", "INFO"):
            frames.append(Frame(operation, argument))
            at = body
        else:
            raise ValueError(f"not an operation of a server: {line!r}")
