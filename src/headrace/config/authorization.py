"""Reads the `authorization` block: one user, one token, or a users array."""

from __future__ import annotations

from headrace.config.durations import parse_duration
from headrace.config.identity import Permissions, User
from headrace.config.operators.auth_callout import read_callout
from headrace.config.permissions import (
    apply_default_permissions,
    read_connection_types,
    read_permissions,
)
from headrace.config.problems import Problems
from headrace.config.unsupported import unsupported_message
from headrace.config.values import Value
from headrace.keys.nkeys import is_public

HIGH_TIMEOUT_SECONDS = 60


def read_authorization(block: Value, problems: Problems) -> dict[str, object]:
    """The changes that the block makes to Options. Errors go to `problems`."""
    changes: dict[str, object] = {"username": "", "password": "", "token": "", "auth_timeout": 0.0}
    for name, value in block.mapping().items():
        with problems.collecting():
            _read_field(name, value, changes, problems)
    default = changes.pop("default_permissions", None)
    if isinstance(default, Permissions) and isinstance(users := changes.get("users"), tuple):
        changes["users"] = apply_default_permissions(users, default)
    with problems.collecting():
        _check_combination(block, changes)
    return changes


def _read_field(name: str, value: Value, changes: dict[str, object], problems: Problems) -> None:
    lowered = name.lower()
    if lowered in ("user", "username"):
        changes["username"] = value.string()
    elif lowered in ("pass", "password"):
        changes["password"] = value.string()
    elif lowered == "token":
        changes["token"] = value.string()
    elif lowered == "timeout":
        changes["auth_timeout"] = _read_timeout(value, problems)
    elif lowered == "users":
        changes["users"] = read_users(value, problems)
    elif lowered in ("default_permission", "default_permissions", "permissions"):
        changes["default_permissions"] = read_permissions(value, problems)
    elif lowered in ("auth_callout", "auth_hook"):
        changes["callout"] = read_callout(value, problems)
    elif lowered == "python":
        changes["python_hook"] = value.string()
    elif lowered == "proxy_required":
        _refuse_proxy(value)
    elif not value.used_as_variable:
        raise value.error(f'unknown field "{name}"')


def _read_timeout(value: Value, problems: Problems) -> float:
    plain = value.plain
    if isinstance(plain, str):
        try:
            seconds = parse_duration(plain)
        except ValueError as error:
            raise value.error(f"error parsing authorization config, 'timeout' {error}") from None
    elif isinstance(plain, int | float) and not isinstance(plain, bool):
        seconds = float(plain)
    else:
        raise value.error("error parsing authorization config, 'timeout' wrong type")
    if seconds > HIGH_TIMEOUT_SECONDS:
        problems.warn(
            value,
            "timeout",
            f"timeout of {plain} ({seconds:f} seconds) is high, consider keeping it under 60 seconds. "
            "possibly caused by unquoted duration; use '1m' instead of 1m, for example",
        )
    return seconds


def read_users(value: Value, problems: Problems) -> tuple[User, ...]:
    """A `users` array. Errors in an entry go to `problems`."""
    if not isinstance(value.plain, list):
        raise value.error("Expected users field to be an array")
    users = []
    for entry in value.plain:
        with problems.collecting():
            users.append(_read_user(entry, problems))
    return tuple(users)


def _read_user(entry: Value, problems: Problems) -> User:
    if not isinstance(entry.plain, dict):
        raise entry.error("Expected user entry to be a map/struct")
    user = password = nkey = ""
    permissions = connection_types = None
    for name, value in entry.plain.items():
        lowered = name.lower()
        if lowered in ("user", "username"):
            user = value.string()
        elif lowered in ("pass", "password"):
            password = value.string()
        elif lowered in ("permission", "permissions", "authorization"):
            permissions = read_permissions(value, problems)
        elif lowered in ("allowed_connection_types", "connection_types", "clients"):
            connection_types = read_connection_types(value, problems)
        elif lowered == "nkey":
            nkey = value.string()
        elif lowered == "proxy_required":
            _refuse_proxy(value)
        elif not value.used_as_variable:
            raise value.error(f'unknown field "{name}"')
    if not user and not nkey:
        raise entry.error("User entry requires a user")
    if nkey:
        _check_nkey(entry, nkey, has_others=bool(user or password))
    return User(user, password, nkey, permissions=permissions, connection_types=connection_types)


def _check_nkey(entry: Value, nkey: str, *, has_others: bool) -> None:
    if not is_public(nkey, "user"):
        raise entry.error(
            "Not a valid public nkey for a user", hint="it starts with U; a seed starts with SU"
        )
    if has_others:
        raise entry.error("Nkey users do not take usernames or passwords")


def _refuse_proxy(value: Value) -> None:
    if value.boolean():
        raise value.error(unsupported_message("proxy_required", "the PROXY protocol"))


def _check_combination(block: Value, changes: dict[str, object]) -> None:
    has_user = bool(changes["username"])
    if (has_user or changes["password"]) and changes["token"]:
        raise block.error("Cannot have a user/pass and token")
    users = changes.get("users")
    if not isinstance(users, tuple):
        return
    if has_user:
        raise block.error("Can not have a single user/pass and a users array")
    if changes["token"]:
        raise block.error("Can not have a token and a users array")
    check_names(block, users)


def check_names(where: Value, users: tuple[User, ...]) -> None:
    """Raises ConfigError if two users have the same name."""
    names: set[str] = set()
    for user in users:
        name = user.nkey or user.user
        if name in names:
            raise where.error(f'Duplicate {"nkey" if user.nkey else "user"} "{name}" detected')
        names.add(name)
