"""Names that are longer in JSON than by themselves."""

from __future__ import annotations

import pytest

from tests.streams.peers import Peers


@pytest.mark.parametrize("name", ["plain" * 51, '"' * 255, "ä" * 127])
async def test_a_publish_is_acknowledged_whatever_the_length_of_the_name(peers: Peers, name: str) -> None:
    """Up to 512 bytes an acknowledgement is written in place; this one may need more."""
    stream = {"name": name, "subjects": ["long"], "storage": "memory"}
    await peers.ask(f"STREAM.CREATE.{name}", stream)
    for seq in (1, 2):
        answer = await peers.publish("long", "x")
        assert answer == {"stream": name, "seq": seq}
    again = await peers.publish("long", "x", {"Nats-Msg-Id": "1"})
    assert again == {"stream": name, "seq": 3}
    again = await peers.publish("long", "x", {"Nats-Msg-Id": "1"})
    assert again == {"stream": name, "seq": 3, "duplicate": True}
