"""More time to log in than nats-server's two seconds, on a machine that is busy or stands still.

A test about that time sets a `timeout` itself, and keeps it.
"""

from __future__ import annotations

import re

LOGIN = "timeout: 30"

_TOKEN = re.compile(r""""[^"]*"|'[^']*'|(?<!\S)(?:\#|//)[^\n]*|[{}\[\]]|[^\s{}\[\]"',:=]+""")


def patient(config: str) -> str:
    """The same configuration, with a long time to log in where users have to."""
    blocks = _blocks(config)
    if "authorization" in blocks:
        start, end = blocks["authorization"]
        has_timeout = re.search(r"\btimeout\b", config[start:end])
        return config if has_timeout else f"{config[:start]} {LOGIN}, {config[start:]}"
    if re.search(r"(?m)^operator\b", config) or _has_accounts(config, blocks):
        return f"{config}\nauthorization {{ {LOGIN} }}\n"
    return config


def _has_accounts(config: str, blocks: dict[str, tuple[int, int]]) -> bool:
    """Whether accounts have users. If only the system account has some, an authorization block would change
    who gets in: without it, everybody else needs no credentials."""
    if "accounts" not in blocks:
        return False
    start, end = blocks["accounts"]
    system = re.search(r"\bsystem_account\s*[:=]?\s*(\S+)", config)
    names = set(_blocks(config[start:end]))
    return "users" in config[start:end] and names != {system[1].strip("\"'") if system else "$SYS"}


def _blocks(config: str) -> dict[str, tuple[int, int]]:
    """Where the insides of the outermost blocks are, by their names."""
    found: dict[str, tuple[int, int]] = {}
    depth, start, name, word = 0, 0, "", ""
    for token in _TOKEN.finditer(config):
        text = token[0]
        if text in ("{", "["):
            if depth == 0:
                name, start = word, token.end()
            depth += 1
        elif text in ("}", "]"):
            depth -= 1
            if depth == 0 and text == "}":
                found[name] = (start, token.start())
        elif depth == 0 and not text.startswith(("#", "//")):
            word = text.strip("\"'")
    return found
