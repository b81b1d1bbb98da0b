"""Names of buckets and keys, checked before a connection is made."""

from __future__ import annotations

import re

import click

from headrace.subjects.keys import KEY_RULE, is_valid_key

_BUCKET = re.compile(r"[a-zA-Z0-9_-]+")
_PATTERN = re.compile(r"[-/_=.a-zA-Z0-9*>]+")


def bucket_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _BUCKET.fullmatch(value):
        raise click.UsageError(f"bucket {value!r} may contain only letters, digits, - and _")
    return value


def key_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not is_valid_key(value):
        raise click.UsageError(f"key {value!r} may contain {KEY_RULE}")
    return value


def key_pattern(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A key, with `*` for a token and `>` for the rest."""
    if value is None:
        return None
    tokens = value.split(".")
    whole = all(token in ("*", ">") or not set("*>") & set(token) for token in tokens)
    if not (_PATTERN.fullmatch(value) and _has_whole_tokens(value) and whole and ">" not in tokens[:-1]):
        raise click.UsageError(f"key {value!r} is neither a key nor a pattern such as users.* or users.>")
    return value


def _has_whole_tokens(value: str) -> bool:
    return all(value.split("."))
