"""A .creds file is read as by nats-py, and written so that it can read it."""

from __future__ import annotations

import pytest

from headrace.keys.creds import InvalidCreds, format_creds, parse_creds
from headrace.keys.nkeys import KeyPair

PAIR = KeyPair("user", bytes(range(32)))


@pytest.mark.parametrize(
    "change", [str, lambda text: text.replace("\n", "\r\n"), str.rstrip, lambda t: "note\n" + t]
)
def test_what_is_written_is_read(change):
    jwt, pair = parse_creds(change(format_creds("a.b.c", PAIR)))
    assert (jwt, pair.public_key) == ("a.b.c", PAIR.public_key)


@pytest.mark.parametrize(
    "text", ["", PAIR.seed, "-----BEGIN NATS USER JWT-----\na.b.c\n------END NATS USER JWT------\n"]
)
def test_what_is_missing_is_said(text):
    with pytest.raises(InvalidCreds, match="needs a user JWT and an nkey seed") as error:
        parse_creds(text)
    assert PAIR.seed not in str(error.value)


def test_a_broken_seed_is_refused_without_showing_it():
    broken = PAIR.seed[:-1] + ("A" if PAIR.seed[-1] != "A" else "B")
    with pytest.raises(InvalidCreds, match="checksum is wrong") as error:
        parse_creds(format_creds("a.b.c", PAIR).replace(PAIR.seed, broken))
    assert broken not in str(error.value)
