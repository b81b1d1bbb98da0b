"""What the tests need of nats-py beyond what it does itself."""

from __future__ import annotations

from nats.aio.client import Client

PATIENCE_SECONDS = 30


async def flush(client: Client) -> None:
    """Until the server has carried out all that the client was told: then another client can rely on it.

    nats-py writes the PING of a flush at once, before a SUB that still waits for its turn to be written. Only
    the second PING certainly comes after that.
    """
    for _ in range(2):
        await client.flush(PATIENCE_SECONDS)
