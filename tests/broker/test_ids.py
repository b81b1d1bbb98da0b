"""Random names: of the right length and alphabet, and every digit as likely as the others."""

from __future__ import annotations

from collections import Counter

import pytest

from headrace.broker.ids import DIGIT_OF_BYTE, DIGITS, EXCESS_BYTES, random_id


@pytest.mark.parametrize("length", [0, 1, 4, 8, 22, 1000])
def test_ids_have_the_length_that_was_asked_for(length: int) -> None:
    made = random_id(length)
    assert len(made) == length
    assert set(made) <= set(DIGITS)


def test_ids_differ() -> None:
    assert len({random_id() for _ in range(1000)}) == 1000


def test_every_digit_is_as_likely_as_the_others() -> None:
    shares = Counter(bytes(range(256)).translate(DIGIT_OF_BYTE, EXCESS_BYTES))
    assert shares == dict.fromkeys(DIGITS.encode(), 4)
