"""An operator, its accounts and users, for sessions: always the same keys and tokens."""

from __future__ import annotations

from typing import Any

from headrace.keys import claims as c
from headrace.keys.jwt import encode
from headrace.keys.nkeys import KeyPair
from tests.interop.session import connect_line
from tests.interop.signatures import signature

ISSUED_AT = 1_700_000_000
LATE = 4_000_000_000


def pair(kind: Any, number: int) -> KeyPair:
    return KeyPair(kind, bytes([number]) * 32)


OPERATOR, OPERATOR_SIGNER, OTHER_OPERATOR = (pair("operator", number) for number in (1, 2, 3))
SYSTEM, ONE, TWO, STRANGER = (pair("account", number) for number in (10, 11, 12, 13))
SIGNER, SCOPED, LOST = (pair("account", number) for number in (20, 21, 22))
USER, OTHER_USER, REVOKED = (pair("user", number) for number in (30, 31, 32))


def operator_token(signer: KeyPair = OPERATOR, **fields: Any) -> str:
    claims = c.OperatorClaims(
        subject=signer.public_key,
        name="operator",
        nats=c.Operator(
            **{"system_account": SYSTEM.public_key, "signing_keys": [OPERATOR_SIGNER.public_key], **fields}
        ),
    )
    return encode(claims, signer, issued_at=ISSUED_AT)


def account_token(
    account: KeyPair,
    name: str = "",
    *,
    signer: KeyPair = OPERATOR,
    limits: dict[str, Any] | None = None,
    expires: int = 0,
    not_before: int = 0,
    issued_at: int = ISSUED_AT,
    **fields: Any,
) -> str:
    allowed = c.unlimited_account()
    for field, value in (limits or {}).items():
        setattr(allowed, field, value)
    claims = c.AccountClaims(
        subject=account.public_key,
        name=name,
        expires=expires,
        not_before=not_before,
        nats=c.Account(limits=allowed, **fields),
    )
    return encode(claims, signer, issued_at=issued_at)


def user_token(
    user: KeyPair = USER,
    *,
    signer: KeyPair = ONE,
    account: KeyPair | None = None,
    name: str = "anna",
    expires: int = 0,
    not_before: int = 0,
    issued_at: int = ISSUED_AT,
    is_scoped: bool = False,
    **fields: Any,
) -> str:
    """Of `account`, if a signing key has signed it."""
    own = fields if is_scoped else {**c.NO_LIMITS, **fields}
    claims = c.UserClaims(
        subject=user.public_key,
        name=name,
        expires=expires,
        not_before=not_before,
        nats=c.User(**own, issuer_account=account.public_key if account else ""),
    )
    return encode(claims, signer, issued_at=issued_at)


def login(token: str, pair: KeyPair = USER, /, **options: object) -> bytes:
    return connect_line(**{"jwt": token, "sig": signature(pair), **options})


def memory_settings(*accounts: str, operator: str = "", extra: str = "") -> str:
    """Operator mode with these tokens of accounts at hand."""
    from headrace.keys.jwt import decode

    preload = "\n".join(f"  {decode(token).subject}: {token}" for token in accounts)
    return (
        f"operator: {operator or operator_token()}\nresolver: MEMORY\n"
        f"resolver_preload {{\n{preload}\n}}\n{extra}\n"
    )
