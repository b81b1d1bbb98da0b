"""Reads the `accounts` directive: accounts, their users, and what they may use and share.

    accounts { A { users: [{user: foo, password: bar}], jetstream: { max_file: 1GB, max_streams: 10 } } }

An array of names makes accounts without users, for those that are named elsewhere.
"""

from __future__ import annotations

import msgspec

from headrace.config.accounts.exports import read_exports, read_imports
from headrace.config.accounts.limits import read_account_jetstream, read_client_limits
from headrace.config.accounts.mappings import read_mappings
from headrace.config.accounts.message_trace import read_message_trace
from headrace.config.authorization import check_names, read_users
from headrace.config.identity import GLOBAL_ACCOUNT, AccountOptions, Permissions, User
from headrace.config.permissions import apply_default_permissions, read_permissions
from headrace.config.problems import Problems
from headrace.config.values import KIND_NAMES, Value
from headrace.keys.nkeys import is_public

Changes = dict[str, object]


class Outside(msgspec.Struct, frozen=True):
    """Who may connect besides the users in accounts, as far as the file has been read."""

    users: tuple[User, ...] = ()
    has_username: bool = False
    has_token: bool = False


def read_accounts(
    value: Value, problems: Problems, outside: Outside
) -> tuple[tuple[AccountOptions, ...], tuple[User, ...]]:
    """The accounts, and the users in them. Errors in an account go to `problems`."""
    if isinstance(value.plain, list):
        return _read_names(value.plain, problems), ()
    if not isinstance(value.plain, dict):
        raise value.error("Expected a map of accounts with their users")
    accounts: list[AccountOptions] = []
    users: list[User] = []
    for name, entry in value.plain.items():
        if entry.used_as_variable:
            continue
        with problems.collecting():
            account, its_users, where = _read_account(name, entry, problems)
            accounts.append(account)
            if its_users:
                _check_users(where, outside, (*outside.users, *users, *its_users))
            users += its_users
    return tuple(accounts), tuple(users)


def _check_users(where: Value, outside: Outside, users: tuple[User, ...]) -> None:
    if outside.has_username:
        raise where.error("Can not have a single user/pass and accounts")
    if outside.has_token:
        raise where.error("Can not have a token and accounts")
    check_names(where, users)


def _read_names(names: list[Value], problems: Problems) -> tuple[AccountOptions, ...]:
    accounts: dict[str, AccountOptions] = {}
    for entry in names:
        with problems.collecting():
            name = entry.string()
            _check_reserved(name, entry)
            if name in accounts:
                raise entry.error(f"Duplicate Account Entry: {name}")
            accounts[name] = AccountOptions(name)
    return tuple(accounts.values())


def _check_reserved(name: str, entry: Value) -> None:
    if name == GLOBAL_ACCOUNT:
        raise entry.error(f'"{name}" is a Reserved Account')


def _read_account(name: str, entry: Value, problems: Problems) -> tuple[AccountOptions, list[User], Value]:
    """The account, its users, and where those are."""
    if not isinstance(entry.plain, dict):
        raise entry.error("Expected map entries for accounts")
    _check_reserved(name, entry)
    changes: Changes = {}
    users: tuple[User, ...] = ()
    default: Permissions | None = None
    where = entry
    for field, value in entry.plain.items():
        lowered = field.lower()
        with problems.collecting():
            if lowered == "users":
                users = read_users(value, problems)
                where = value
            elif lowered == "default_permissions":
                default = read_permissions(value, problems)
            elif lowered == "jetstream":
                changes["jetstream"] = read_account_jetstream(value, problems)
                _check_directory(name, entry)
            elif lowered == "limits":
                changes["limits"] = read_client_limits(value, problems)
            elif lowered == "exports":
                changes |= read_exports(value, problems)
            elif lowered == "imports":
                changes |= read_imports(value, problems)
            elif lowered in ("mappings", "maps"):
                changes["mappings"] = read_mappings(value, problems)
            elif lowered == "nkey":
                changes["nkey"] = _read_nkey(value)
            elif lowered in ("msg_trace", "trace_dest"):
                changes["trace"] = read_message_trace(field, value, problems)
            elif not value.used_as_variable:
                raise value.error(f'unknown field "{field}"')
    account = AccountOptions(name, **changes)  # type: ignore[arg-type]
    users = apply_default_permissions(users, default)
    return account, [msgspec.structs.replace(user, account=name) for user in users], where


def _check_directory(name: str, entry: Value) -> None:
    """The name of an account with streams becomes a directory of the store."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise entry.error(f'"{name}" can not be the name of an account')


def _read_nkey(value: Value) -> str:
    plain = value.plain
    if not isinstance(plain, str) or not is_public(plain, "account"):
        shown = f'"{plain}"' if isinstance(plain, str) else KIND_NAMES[type(plain)]
        raise value.error(f"Not a valid public nkey for an account: {shown}")
    return plain
