"""Numbers and words that are no JSON: refused in the words of nats-server."""

from __future__ import annotations

import pytest

from tests.streams.peers import Peers

SIGNS = ("-", "+1", "-0", "--1", "01", "-01", "0x1")
FRACTIONS = ("1.", "1.e1", "1.5.5", ".5")
EXPONENTS = ("1e", "1e+", "1E-", "1e1", "1e+05", "1E-2", "1e5.5", "1.5e3x")
WORDS = ("nul", "nulL", "truE", "fals", "false1", "NaN", "Infinity")


@pytest.mark.parametrize("numbers", [SIGNS, FRACTIONS, EXPONENTS, WORDS], ids=lambda numbers: numbers[0])
async def test_a_broken_number_is_refused_in_the_words_of_nats_server(
    peers: Peers, numbers: tuple[str, ...]
) -> None:
    for number in numbers:
        await peers.ask("STREAM.CREATE.A", f'{{"name":"B","max_msgs":{number}}}')
        await peers.ask("STREAM.CREATE.A", f'{{"name":"B","max_msgs":{number}')
        await peers.ask("STREAM.CREATE.A", f'{{"name":"B","metadata":[{number}, {number}]}}')
