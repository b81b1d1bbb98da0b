"""Reads the `authorization` block: one user, one token, or a users array."""

from __future__ import annotations

from headrace.config.durations import parse_duration
from headrace.config.options import User
from headrace.config.problems import Problems
from headrace.config.unsupported import UNSUPPORTED_AUTHORIZATION, UNSUPPORTED_USER, unsupported_message
from headrace.config.values import Value

HIGH_TIMEOUT_SECONDS = 60


def read_authorization(block: Value, problems: Problems) -> dict[str, object]:
    """The changes that the block makes to Options. Errors go to `problems`."""
    changes: dict[str, object] = {"username": "", "password": "", "token": "", "auth_timeout": 0.0}
    for name, value in block.mapping().items():
        with problems.collecting():
            _read_field(name, value, changes, problems)
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
    elif lowered == "proxy_required":
        _refuse_proxy(value)
    elif lowered in UNSUPPORTED_AUTHORIZATION:
        raise value.error(unsupported_message(name, UNSUPPORTED_AUTHORIZATION[lowered]))
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
            users.append(_read_user(entry))
    return tuple(users)


def _read_user(entry: Value) -> User:
    if not isinstance(entry.plain, dict):
        raise entry.error("Expected user entry to be a map/struct")
    user = password = ""
    for name, value in entry.plain.items():
        lowered = name.lower()
        if lowered in ("user", "username"):
            user = value.string()
        elif lowered in ("pass", "password"):
            password = value.string()
        elif lowered == "proxy_required":
            _refuse_proxy(value)
        elif lowered in UNSUPPORTED_USER:
            raise value.error(unsupported_message(name, UNSUPPORTED_USER[lowered]))
        elif not value.used_as_variable:
            raise value.error(f'unknown field "{name}"')
    if not user:
        raise entry.error("User entry requires a user")
    return User(user, password)


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
        if user.user in names:
            raise where.error(f'Duplicate user "{user.user}" detected')
        names.add(user.user)
