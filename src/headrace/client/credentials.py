"""Who we are, and how we prove it: the fields of CONNECT that a server checks.

Files are read whenever a connection is made, so that a reconnect uses what is in them by then. No repr and no
error has a secret in it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.client.errors import ConnectionFailed, UsageError

if TYPE_CHECKING:
    from headrace.keys.nkeys import KeyPair

_SEED = re.compile(r"\s*S[A-Z2-7]{57}\s*")
_JWT = re.compile(r"\s*eyJ[\w-]*\.[\w-]+\.[\w-]+\s*")  # JSON in base64 begins so


@dataclass(frozen=True)
class Credentials:
    """One of: user and password, a token, `.creds`, an nkey, or a JWT with its seed (or none, for a bearer).

    `creds`, `nkey`, `jwt` and `seed` are paths of files or their contents. Functions may take their place:
    `jwt` one that returns it, `sign` one that signs the nonce with the key of the JWT.
    """

    user: str = ""
    password: str = ""
    token: str = ""
    creds: str = ""
    nkey: str = ""
    jwt: str | Callable[[], str] = ""
    seed: str = ""
    sign: Callable[[bytes], bytes] | None = None

    def __post_init__(self) -> None:
        ways = {
            "user": self.user,
            "token": self.token,
            "creds": self.creds,
            "nkey": self.nkey,
            "jwt": self.jwt,
        }
        given = [name for name, value in ways.items() if value]
        if len(given) > 1:
            raise UsageError(f"both {given[0]} and {given[1]} are given", hint="a client has one identity")
        if (self.seed or self.sign) and not self.jwt:
            raise UsageError("a seed without its JWT", hint="a seed alone is an nkey: give it as that")

    def __repr__(self) -> str:
        return "Credentials(...)"

    def loaded(self) -> Credentials:
        """With the contents of its files, for machines that do not have them. Raises ConnectionFailed."""
        if self.creds:
            jwt_and_key(self.creds)
        return replace(
            self,
            creds=self.creds and read(self.creds, "the credentials file"),
            nkey=self.nkey and key_pair(self.nkey, "the nkey").seed,
            jwt=self.jwt if callable(self.jwt) else self.jwt and read(self.jwt, "the JWT"),
            seed=self.seed and key_pair(self.seed, "the seed").seed,
        )

    def fields(self, nonce: str) -> dict[str, str]:
        """For CONNECT, with the nonce of INFO signed. Raises ConnectionFailed."""
        if self.creds:
            jwt, pair = jwt_and_key(self.creds)
            return {"jwt": jwt} | signature(pair.sign, nonce)
        if self.nkey:
            pair = key_pair(self.nkey, "the nkey")
            if not nonce:
                raise ConnectionFailed(
                    "the server asks for no nkey", hint="it has no users with nkeys: leave the nkey out"
                )
            return {"nkey": pair.public_key} | signature(pair.sign, nonce)
        if self.jwt:
            jwt = self.jwt() if callable(self.jwt) else read(self.jwt, "the JWT").strip()
            sign = self.sign or (key_pair(self.seed, "the seed").sign if self.seed else None)
            return {"jwt": jwt} | (signature(sign, nonce) if sign else {})
        named = {"user": self.user, "pass": self.password, "auth_token": self.token}
        return {name: value for name, value in named.items() if value}


def signature(sign: Callable[[bytes], bytes], nonce: str) -> dict[str, str]:
    """A server without users that sign sends no nonce; then there is nothing to sign."""
    if not nonce:
        return {}
    return {"sig": base64.urlsafe_b64encode(sign(nonce.encode())).rstrip(b"=").decode()}


def jwt_and_key(creds: str) -> tuple[str, KeyPair]:
    from headrace.keys.creds import InvalidCreds, parse_creds

    try:
        return parse_creds(read(creds, "the credentials file"))
    except InvalidCreds as error:
        raise ConnectionFailed(f"the credentials{_place(creds)} cannot be used: {error}") from None


def key_pair(text: str, what: str) -> KeyPair:
    from headrace.keys.nkeys import InvalidKey, KeyPair

    try:
        # A file may have comments and an nkey's decoration around its seed, as that of a .creds file does.
        found = re.search(r"\bS[A-Z2-7]{57}\b", read(text, what))
        return KeyPair.from_seed(found[0] if found else "")
    except InvalidKey as error:
        raise ConnectionFailed(f"{what}{_place(text)} cannot be used: it is {error}") from None


def is_contents(text: str) -> bool:
    """Contents rather than the path of a file. In doubt they are contents, which no error shows."""
    return "\n" in text or "-----" in text or bool(_SEED.fullmatch(text) or _JWT.fullmatch(text))


def read(text: str, what: str) -> str:
    """The contents that it is, or that the file of this path has. Raises ConnectionFailed."""
    if is_contents(text):
        return text
    try:
        return Path(text).expanduser().read_text()
    except OSError as error:
        raise ConnectionFailed(f"{what} {text} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise ConnectionFailed(f"{what} {text} cannot be used: it is not text") from None


def _place(text: str) -> str:
    return "" if is_contents(text) else f" of {text}"
