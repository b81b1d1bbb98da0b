"""Every sample is answered as nats-server answered it: whole, byte by byte and with trailing data."""

from __future__ import annotations

import asyncio
import re
import socket

import pytest

from tests.broker.conftest import HOST, PATIENCE_SECONDS, Start
from tests.wire_samples import SAMPLES, Sample

INFO = re.compile(rb"INFO \{[^\r\n]*\}\s*\r\n")
TURNS = 3  # of the event loop, for a byte to get there
PING, PONG = b"PING\r\n", b"PONG\r\n"


def identify(sample: Sample) -> str:
    return sample.name.replace(" ", "-")


class Conversation:
    """A socket and what has come back on it, INFO lines left out."""

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.loop = asyncio.get_running_loop()
        self.ended = False

    async def send(self, data: bytes) -> None:
        try:
            await self.loop.sock_sendall(self.client, data)
        except ConnectionError:
            self.ended = True

    async def receive(self, expected: bytes, seconds: float = PATIENCE_SECONDS) -> bytes:
        """All up to the last PONG expected, to the end if there is none, or until the time is over."""
        pongs = expected.count(PONG)
        received = b""
        try:
            async with asyncio.timeout(seconds):
                while not pongs or received.count(PONG) < pongs:
                    piece = await self.loop.sock_recv(self.client, 65536)
                    if not piece:
                        self.ended = True
                        break
                    received += piece
        except ConnectionResetError:
            self.ended = True
        except TimeoutError:
            pass
        return self._without_what_comes_by_itself(received)

    async def receive_at_least(self, length: int) -> bytes:
        """As many bytes, and what comes with them."""
        received = b""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self._without_what_comes_by_itself(received)) < length:
                piece = await self.loop.sock_recv(self.client, 65536)
                assert piece, received
                received += piece
        return self._without_what_comes_by_itself(received)

    @staticmethod
    def _without_what_comes_by_itself(received: bytes) -> bytes:
        """The server measures its round trip with a PING of its own if all this takes a second."""
        return INFO.sub(b"", received).replace(PING, b"")


async def begin(port: int, sample: Sample) -> Conversation:
    """Connect, and read the answer to CONNECT to the end."""
    client = socket.create_connection((HOST, port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.setblocking(False)
    conversation = Conversation(client)
    await conversation.send(sample.connect + PING)
    confirmed = b"+OK\r\n" if b'"verbose":true' in sample.connect else b""
    assert await conversation.receive(confirmed + PONG) == confirmed + PONG
    return conversation


@pytest.mark.parametrize("way", ["whole", "byte by byte", "trailing"])
@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample.complete], ids=identify)
async def test_a_sample_is_answered_as_recorded(start: Start, sample: Sample, way: str) -> None:
    conversation = await begin(start().broker.port, sample)
    with conversation.client:
        sent = sample.sent + (PING if way == "trailing" else b"")
        for piece in [bytes([byte]) for byte in sent] if way == "byte by byte" else [sent]:
            await conversation.send(piece)
            for _ in range(TURNS):
                await asyncio.sleep(0)
        expected = sample.answered
        if not sample.closes:
            await conversation.send(PING)
            expected += (PONG if way == "trailing" else b"") + PONG
        assert await conversation.receive(expected) == expected
        assert conversation.ended == sample.closes


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if not sample.complete], ids=identify)
async def test_half_an_operation_is_waited_for(start: Start, sample: Sample) -> None:
    conversation = await begin(start().broker.port, sample)
    with conversation.client:
        await conversation.send(sample.sent)
        received = await conversation.receive_at_least(len(sample.answered))
        assert received + await conversation.receive(b"", seconds=0.05) == sample.answered
        assert not conversation.ended
