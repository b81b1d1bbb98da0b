"""A .creds file: the JWT of a user and the seed that belongs to it, each between lines of dashes."""

from __future__ import annotations

import re

from headrace.errors import HeadraceError
from headrace.keys.nkeys import InvalidKey, KeyPair

_BLOCK = re.compile(r"-{3,}[^\n]*-{3,}\r?\n\s*(\S+?)\s*\r?\n-{3,}[^\n]*-{3,}\r?\n")

TEMPLATE = """\
-----BEGIN NATS USER JWT-----
{jwt}
------END NATS USER JWT------

************************* IMPORTANT *************************
NKEY Seed printed below can be used to sign and prove identity.
NKEYs are sensitive and should be treated as secrets.

-----BEGIN USER NKEY SEED-----
{seed}
------END USER NKEY SEED------

*************************************************************
"""


class InvalidCreds(HeadraceError):
    """Not the contents of a .creds file. The message never has a secret in it."""


def parse_creds(text: str) -> tuple[str, KeyPair]:
    """The JWT and the key pair of the user. Raises InvalidCreds."""
    blocks = _BLOCK.findall(text + "\n")
    if len(blocks) < 2:
        raise InvalidCreds(
            "not a .creds file: it needs a user JWT and an nkey seed, each between lines of dashes"
        )
    try:
        return blocks[0], KeyPair.from_seed(blocks[1])
    except InvalidKey as error:
        raise InvalidCreds(f"the seed in the .creds file is {error}") from None


def format_creds(jwt: str, pair: KeyPair) -> str:
    return TEMPLATE.format(jwt=jwt, seed=pair.seed)
