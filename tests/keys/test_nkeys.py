"""Our nkeys are those of the nkeys package, which nats-py uses."""

from __future__ import annotations

import nkeys
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.keys.nkeys import PREFIXES, InvalidKey, KeyPair, decode_public, is_public, verify

SIGNING = [kind for kind in PREFIXES if kind not in ("curve", "server", "cluster")]


@pytest.mark.parametrize("kind", SIGNING)
def test_a_key_is_the_same_in_both_libraries(kind):
    pair = KeyPair.create(kind)
    theirs = nkeys.from_seed(bytearray(pair.seed.encode()))
    assert theirs.public_key.decode() == pair.public_key
    assert pair.public_key[0] == kind[0].upper()
    assert pair.seed[:2] == "S" + kind[0].upper()
    assert theirs.sign(b"nonce") == pair.sign(b"nonce")
    assert verify(pair.public_key, b"nonce", pair.sign(b"nonce"))
    assert KeyPair.from_seed(pair.seed).public_key == pair.public_key


def test_a_curve_key_has_its_prefix_and_does_not_sign():
    pair = KeyPair.create("curve")
    assert pair.public_key[0] == "X"
    assert pair.seed[:2] == "SX"
    assert KeyPair.from_seed(pair.seed).public_key == pair.public_key
    with pytest.raises(InvalidKey):
        verify(pair.public_key, b"", b"")


@given(st.binary(max_size=80), st.binary(max_size=100))
def test_no_other_signature_is_taken(data, signature):
    pair = KeyPair("user", bytes(32))
    assert verify(pair.public_key, data, signature) == (signature == pair.sign(data))


@given(st.integers(0, 55), st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
def test_a_typing_error_is_noticed(place, character):
    key = KeyPair("account", bytes(range(32))).public_key
    changed = key[:place] + character + key[place + 1 :]
    assert is_public(changed, "account") == (changed == key)


@pytest.mark.parametrize("text", ["", "U", "S" * 58, "U" * 56, "é" * 56, "=" * 56, "u" * 56, "A" * 10**6])
def test_what_is_not_a_key_is_refused(text):
    with pytest.raises(InvalidKey, match="nkey"):
        decode_public(text)
    with pytest.raises(InvalidKey, match="nkey"):
        KeyPair.from_seed(text)
    assert not is_public(text, "user")


def test_a_seed_is_not_shown():
    pair = KeyPair.create("user")
    assert pair.seed not in repr(pair)
