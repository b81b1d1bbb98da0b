"""Publishes the lines of a body, several at a time, and keeps their outcomes in order."""

from __future__ import annotations

import asyncio
from collections import deque

from headrace.http.turns import Turns
from headrace.http_in.client import PublishingClient
from headrace.http_in.lines import MAX_LINES, read_line, split_lines
from headrace.http_in.message import BadMessage
from headrace.http_in.outcome import Outcome, failed

NDJSON = "application/x-ndjson"
LINES_IN_FLIGHT = 256
BYTES_IN_FLIGHT = 4 * 1024 * 1024
LINES_PER_TURN = 64
BYTES_PER_TURN = 256 * 1024


async def publish_lines(
    client: PublishingClient, body: bytes, subject: bytes, *, wants_ack: bool, timeout: float, turns: Turns
) -> list[Outcome]:
    """One outcome per line. A line that is wrong does not keep the others from being published.

    Raises BadMessage if there are too many lines, before any of them is published.
    """
    if body.count(b"\n") > MAX_LINES:  # empty ones count, too: skipping them takes time
        raise BadMessage(f"there are more than {MAX_LINES} lines; send them in several requests")
    outcomes: list[Outcome] = []
    flight: deque[tuple[asyncio.Future[Outcome], int]] = deque()
    in_flight = read = lines = 0
    for line in split_lines(body):
        lines, read = lines + 1, read + len(line)
        if lines > LINES_PER_TURN or read > BYTES_PER_TURN:
            async with turns.next():  # others have their turn
                lines = read = 0
        while len(flight) >= LINES_IN_FLIGHT or (flight and in_flight + len(line) > BYTES_IN_FLIGHT):
            future, size = flight.popleft()
            in_flight -= size
            outcomes.append(await client.outcome(future, timeout))
        flight.append((await _send(client, line, subject, wants_ack, timeout), len(line)))
        in_flight += len(line)
    for future, _ in flight:
        outcomes.append(await client.outcome(future, timeout))
    return outcomes


async def _send(
    client: PublishingClient, line: bytes, subject: bytes, wants_ack: bool, timeout: float
) -> asyncio.Future[Outcome]:
    try:
        message = read_line(line, subject)
    except BadMessage as error:
        refused: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        refused.set_result(failed(400, str(error)))
        return refused
    return await client.send(message, wants_ack=wants_ack, timeout=timeout)
