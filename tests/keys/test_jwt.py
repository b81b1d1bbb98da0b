"""Tokens: what is signed decodes to the same, and nothing else decodes at all."""

from __future__ import annotations

import base64
import contextlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.keys import claims as c
from headrace.keys.jwt import InvalidToken, decode, decode_as, encode, encode_base64url, undecorated
from headrace.keys.nkeys import KeyPair
from headrace.keys.xkeys import CannotOpen, open_box, seal

OPERATOR, ACCOUNT, USER = (
    KeyPair(kind, bytes([n]) * 32) for n, kind in enumerate(("operator", "account", "user"))
)
SERVER = KeyPair("server", bytes(range(32)))


def user_token(**fields: object) -> str:
    claims = c.UserClaims(subject=USER.public_key, name="anna", nats=c.User(**c.NO_LIMITS, **fields))
    return encode(claims, ACCOUNT)


@pytest.mark.parametrize(
    ("claims", "signer"),
    [
        (c.OperatorClaims(subject=OPERATOR.public_key, nats=c.Operator(signing_keys=["x"])), OPERATOR),
        (c.AccountClaims(subject=ACCOUNT.public_key, nats=c.Account(limits=c.unlimited_account())), OPERATOR),
        (
            c.AccountClaims(
                subject=ACCOUNT.public_key,
                nats=c.Account(
                    signing_keys=["A", c.UserScope(key="B", template=c.UserLimits(subs=1))],
                    revocations={"*": 5},
                    mappings={"a": [c.WeightedMapping(subject="b", weight=20)]},
                    exports=[c.Export(subject="x", type="service")],
                    imports=[c.Import(subject="x", account="A", type="stream")],
                ),
            ),
            OPERATOR,
        ),
        (
            c.UserClaims(subject=USER.public_key, expires=9, not_before=3, nats=c.User(bearer_token=True)),
            ACCOUNT,
        ),
        (
            c.ActivationClaims(subject=ACCOUNT.public_key, nats=c.Activation(subject="x", kind="stream")),
            ACCOUNT,
        ),
        (c.AuthorizationRequestClaims(subject="x", nats=c.AuthorizationRequest(user_nkey="U")), SERVER),
        (c.AuthorizationResponseClaims(subject="x", nats=c.AuthorizationResponse(error="no")), ACCOUNT),
        (c.GenericClaims(subject="x", nats={"accounts": ["A"]}), OPERATOR),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_signed_decodes_to_the_same(claims: c.AnyClaims, signer: KeyPair) -> None:
    decoded = decode(encode(claims, signer))
    assert decoded == claims
    assert decoded.issuer == signer.public_key


@pytest.mark.parametrize(
    ("claims", "signer"),
    [
        (c.OperatorClaims(subject=OPERATOR.public_key), ACCOUNT),
        (c.AccountClaims(subject=ACCOUNT.public_key), USER),
        (c.UserClaims(subject=USER.public_key), OPERATOR),
        (c.UserClaims(subject=USER.public_key), USER),
        (c.AuthorizationRequestClaims(subject="x"), ACCOUNT),
        (c.AuthorizationResponseClaims(subject="x"), USER),
    ],
)
def test_a_key_of_another_kind_must_not_sign_it(claims: c.AnyClaims, signer: KeyPair) -> None:
    with pytest.raises(InvalidToken, match="must not sign"):
        decode(encode(claims, signer))


def test_a_token_of_another_kind_is_told_apart() -> None:
    with pytest.raises(InvalidToken, match="not account claim"):
        decode_as(c.AccountClaims, user_token())


@given(st.data())
def test_a_changed_token_is_refused(data: st.DataObject) -> None:
    token = user_token()
    place = data.draw(st.integers(0, len(token) - 1))
    character = data.draw(st.sampled_from("ABCxyz019_-.=+/ \n\u2603"))
    changed = token[:place] + character + token[place + 1 :]
    try:
        claims = decode(changed)
    except InvalidToken:
        return
    # The last characters of a part may hold bits that mean nothing.
    assert claims == decode(token)


@given(st.text(max_size=200) | st.text("eyJ.AB_-", max_size=200))
def test_text_is_refused_and_nothing_else_happens(text: str) -> None:
    with pytest.raises(InvalidToken):
        decode(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [
    "type",
    "version",
    "pub",
    "sub",
    "src",
    "times",
    "limits",
    "signing_keys",
    "imports",
    "exports",
    "revocations",
]


@given(
    st.sampled_from(["user", "account", "operator", "activation", "authorization_response", "other"]),
    st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4),
    st.dictionaries(st.sampled_from(["type", "exp", "nbf", "sub", "tags"]), json_values, max_size=2),
)
def test_claims_of_any_shape_are_read_or_refused(
    kind: str, own: dict[str, object], more: dict[str, object]
) -> None:
    """Whoever owns an account may sign whatever JSON it likes."""
    fields = {"iss": ACCOUNT.public_key, "nats": {"type": kind, "version": 2, **own}, **more}
    with contextlib.suppress(InvalidToken):
        decode(signed(fields))


def signed(fields: dict[str, object], *, version: int = 2) -> str:
    header = encode_base64url(b'{"typ":"jwt","alg":"ed25519"}')
    payload = encode_base64url(json.dumps(fields).encode())
    to_sign = payload if version == 1 else f"{header}.{payload}"
    return f"{header}.{payload}.{encode_base64url(ACCOUNT.sign(to_sign.encode()))}"


def test_deep_json_is_refused() -> None:
    payload = encode_base64url(b'{"nats":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    with pytest.raises(InvalidToken):
        decode(f"{encode_base64url(json.dumps({'typ': 'JWT', 'alg': 'ed25519-nkey'}).encode())}.{payload}.x")


def test_version_1_is_read() -> None:
    fields = {
        "iss": ACCOUNT.public_key,
        "sub": USER.public_key,
        "type": "user",
        "tags": ["a"],
        "issuer_account": "A",
        "nats": {"src": "10.0.0.0/8, 127.0.0.1/32", "pub": {"allow": ["x"]}},
    }
    claims = decode_as(c.UserClaims, signed(fields, version=1))
    assert (claims.nats.subs, claims.nats.issuer_account, claims.nats.version) == (-1, "A", 1)
    assert claims.nats.src == ["10.0.0.0/8", "127.0.0.1/32"]
    with pytest.raises(InvalidToken, match="V1 signature"):
        decode(signed(fields, version=2))


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ({"typ": "JWT", "alg": "none"}, 'unexpected "none" algorithm'),
        ({"typ": "JWT", "alg": "HS256"}, 'unexpected "HS256" algorithm'),
        ({"typ": "JWT"}, "algorithm"),
        ({"alg": "ed25519-nkey"}, "not supported type"),
        ({"typ": 5, "alg": "ed25519-nkey"}, "not supported type"),
    ],
)
def test_another_algorithm_is_refused(header: dict[str, object], text: str) -> None:
    _, payload, signature = user_token().split(".")
    with pytest.raises(InvalidToken, match=text):
        decode(f"{encode_base64url(json.dumps(header).encode())}.{payload}.{signature}")


def test_a_newer_version_is_refused() -> None:
    with pytest.raises(InvalidToken, match="newer version"):
        decode(signed({"iss": ACCOUNT.public_key, "nats": {"type": "user", "version": 3}}))


def test_a_large_token_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidToken, match="token size"):
        decode("x" * (1024 * 1024 + 1))


def test_no_message_has_the_token_in_it() -> None:
    token = user_token()
    for broken in (token[:-10], token + ".x", token.replace(".", "!", 1)):
        with pytest.raises(InvalidToken) as raised:
            decode(broken)
        assert token[60:100] not in str(raised.value)


def test_a_file_may_be_decorated() -> None:
    token = user_token()
    assert undecorated(f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n") == token
    assert undecorated(f"{token}\n") == token


def test_unknown_fields_and_nulls_are_ignored() -> None:
    fields = {
        "iss": ACCOUNT.public_key,
        "new": 1,
        "exp": None,
        "nats": {"type": "user", "version": 2, "pub": None},
    }
    assert decode_as(c.UserClaims, signed(fields)).expires == 0


def test_a_scoped_user_has_no_limits_of_its_own() -> None:
    assert c.User(issuer_account="A", tags=["x"], type="user", version=2).is_scoped
    assert not c.User(subs=-1).is_scoped
    assert not c.User(pub=c.SubjectList(allow=["x"])).is_scoped


def test_a_box_opens_for_its_receiver_only() -> None:
    sender, receiver, third = (KeyPair.create("curve") for _ in range(3))
    box = seal(b"secret", sender, receiver.public_key)
    assert box.startswith(b"xkv1")
    assert open_box(box, receiver, sender.public_key) == b"secret"
    assert seal(b"secret", sender, receiver.public_key) != box, "every nonce is a new one"
    for key, peer, data in (
        (third, sender, box),
        (receiver, third, box),
        (receiver, sender, box[:-1]),
        (receiver, sender, b"xkv1"),
        (receiver, sender, b""),
        (receiver, sender, box[1:]),
    ):
        with pytest.raises(CannotOpen):
            open_box(data, key, peer.public_key)


def test_claims_are_json_of_the_wire() -> None:
    claims = json.loads(base64.urlsafe_b64decode(user_token().split(".")[1] + "=="))
    assert claims["nats"] == {
        "pub": {},
        "sub": {},
        "subs": -1,
        "data": -1,
        "payload": -1,
        "type": "user",
        "version": 2,
    }
    assert set(claims) == {"jti", "iat", "iss", "name", "sub", "nats"}
    assert msgspec.json.encode(claims)
