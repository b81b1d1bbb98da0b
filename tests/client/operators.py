"""An operator with one account that has JetStream: its configuration, and .creds of users."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from typing import Any

from headrace.keys.creds import format_creds
from headrace.keys.nkeys import KeyPair
from tests.servers import ServerKind

# Whatever speaks to a server over TLS and with .creds is tested with both.
SECURE_KINDS: list[ServerKind] = ["headrace", "nats-server"]


class Operator:
    def __init__(self) -> None:
        self._operator = KeyPair.create("operator")
        self._system = KeyPair.create("account")
        self._account = KeyPair.create("account")
        everything = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
        streams = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1)
        limits = everything | {"wildcards": True}
        self._jwts = {
            self._system.public_key: self._claim(self._system, "SYS", "account", {"limits": limits}),
            self._account.public_key: self._claim(
                self._account, "APP", "account", {"limits": limits | streams}
            ),
        }

    def config(self) -> str:
        operator = self._claim(self._operator, "O", "operator", {"system_account": self._system.public_key})
        preload = "\n".join(f"  {account}: {jwt}" for account, jwt in self._jwts.items())
        return (
            f"operator: {operator}\nsystem_account: {self._system.public_key}\n"
            f"resolver: MEMORY\nresolver_preload: {{\n{preload}\n}}\n"
        )

    def user(self, *, expires: int = 0, **claims: Any) -> tuple[str, KeyPair]:
        """The JWT and the key of a new user of the account."""
        pair = KeyPair.create("user")
        limits = {"subs": -1, "data": -1, "payload": -1}
        jwt = encode_jwt(self._account, pair, "u", {"type": "user", **limits, **claims}, expires=expires)
        return jwt, pair

    def creds(self, **claims: Any) -> str:
        """The contents of a .creds file."""
        return format_creds(*self.user(**claims))

    def _claim(self, pair: KeyPair, name: str, kind: str, claims: dict[str, Any]) -> str:
        return encode_jwt(self._operator, pair, name, {"type": kind, **claims})


def encode_jwt(
    issuer: KeyPair, subject: KeyPair, name: str, claims: dict[str, Any], *, expires: int = 0
) -> str:
    body: dict[str, Any] = {
        "iat": int(time.time()),
        "iss": issuer.public_key,
        "name": name,
        "sub": subject.public_key,
        "nats": {"version": 2, **claims},
    }
    if expires:
        body["exp"] = expires
    digest = hashlib.sha256(json.dumps(body).encode()).digest()
    body["jti"] = base64.b32encode(digest).rstrip(b"=").decode()
    head = _part(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode())
    signed = f"{head}.{_part(json.dumps(body).encode())}"
    return f"{signed}.{_part(issuer.sign(signed.encode()))}"


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
