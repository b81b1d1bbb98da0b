"""The `accounts` directive: one account, and nothing that would have to keep two apart."""

from pathlib import Path

import pytest

from headrace.config import ConfigFileError, Options, User, check_options, load_file, plan_reload
from headrace.config.accounts import ACCOUNT_JETSTREAM
from headrace.config.options import AccountLimits
from headrace.config.unsupported import UNSUPPORTED_ACCOUNT, UNSUPPORTED_USER
from headrace.errors import ConfigError

USERS = "users: [{user: foo}, {user: bar, password: secret}]"


def load(directory: Path, text: str) -> Options:
    (directory / "test.conf").write_text(text)
    return load_file(str(directory / "test.conf")).options


def load_jetstream(directory: Path, text: str) -> Options:
    return load(directory, f"accounts {{ A {{ {USERS}\n jetstream: {text} }} }}")


def test_the_global_account_has_no_limits() -> None:
    options = Options()
    assert (options.account, options.account_jetstream, options.account_limits) == (
        "$G",
        True,
        AccountLimits(),
    )


def test_the_users_of_the_account_become_those_of_the_server(tmp_path: Path) -> None:
    options = load(tmp_path, f"no_auth_user: foo\naccounts {{ A {{ {USERS} }} }}")
    check_options(options)
    assert options.account == "A"
    assert options.users == (User("foo"), User("bar", "secret"))
    assert options.auth_required


def test_all_limits_of_an_account(tmp_path: Path) -> None:
    options = load_jetstream(
        tmp_path,
        "{max_mem: 64MB, max_file: 32MB, max_streams: 10, max_consumers: 20, max_ack_pending: 100, "
        "memory_max_stream_bytes: 2048, store_max_stream_bytes: 4096, max_stream_bytes: true}",
    )
    assert options.account_jetstream
    assert options.account_limits == AccountLimits(
        max_memory=64 << 20,
        max_storage=32 << 20,
        max_streams=10,
        max_consumers=20,
        max_ack_pending=100,
        memory_max_stream_bytes=2048,
        storage_max_stream_bytes=4096,
        max_bytes_required=True,
    )


@pytest.mark.parametrize("name", [name for name in ACCOUNT_JETSTREAM if name != "cluster_traffic"])
def test_every_name_of_a_limit_sets_one(name: str, tmp_path: Path) -> None:
    value = "true" if "max_bytes" in name or name == "max_stream_bytes" else "7"
    options = load_jetstream(tmp_path, f"{{{name.upper()}: {value}}}")
    assert options.account_limits != AccountLimits()


@pytest.mark.parametrize(
    ("text", "enabled"),
    [
        ("enabled", True),
        ("Enable", True),
        ("true", True),
        ("{}", True),
        ("disabled", False),
        ("DISABLE", False),
        ("false", False),
    ],
)
def test_streams_can_be_switched_on_for_the_account(text: str, enabled: bool, tmp_path: Path) -> None:
    assert load_jetstream(tmp_path, text).account_jetstream is enabled


def test_an_account_that_does_not_ask_for_streams_has_none(tmp_path: Path) -> None:
    assert load(tmp_path, f"accounts {{ A {{ {USERS} }} }}").account_jetstream is False


@pytest.mark.parametrize("text", ["accounts {}", "accounts { $SYS {} }", "accounts { $SYS { users: [] } }"])
def test_without_an_account_everybody_is_in_the_global_one(text: str, tmp_path: Path) -> None:
    options = load(tmp_path, text)
    assert (options.account, options.users, options.account_jetstream) == ("$G", None, True)


def test_the_system_account_may_be_named_as_well(tmp_path: Path) -> None:
    text = f'system_account: "$SYS"\naccounts {{ $SYS {{}}, A {{ {USERS} }} }}'
    assert load(tmp_path, text).account == "A"


@pytest.mark.parametrize(
    "text",
    [
        "authorization {timeout: 5}\naccounts {A {users: [{user: a}]}}",
        "accounts {A {users: [{user: a}]}}\nauthorization {timeout: 5}",
        "accounts {A {users: [{user: a}]}}\nauthorization {timeout: 5, users: []}",
        "authorization {timeout: 5, users: []}\naccounts {A {users: [{user: a}]}}",
    ],
)
def test_an_authorization_block_may_set_the_timeout(text: str, tmp_path: Path) -> None:
    options = load(tmp_path, text)
    assert (options.users, options.auth_timeout, options.account) == ((User("a"),), 5.0, "A")


REFUSED = [
    "accounts {A {users: [{user: a}]}, B {users: [{user: b}]}}",
    "accounts {A {users: [{user: a}]}, B {}}",
    "accounts {A {}}",
    "accounts {A {jetstream: enabled}}",
    "accounts {A {users: [{user: a}]}, $SYS {users: [{user: s}]}}",
    "accounts {$SYS {exports: []}}",
    *(f"accounts {{A {{users: [{{user: a}}], {name}: {{}}}}}}" for name in UNSUPPORTED_ACCOUNT),
    *(f"accounts {{A {{users: [{{user: a, {name}: x}}]}}}}" for name in UNSUPPORTED_USER),
    "accounts {A {users: [{user: a}]}}\nauthorization {users: [{user: b}]}",
    "authorization {users: [{user: b}]}\naccounts {A {users: [{user: a}]}}",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_needs_several_accounts_is_refused_with_one_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError, match=r"does not support .* yet") as caught:
        load(tmp_path, text)
    assert len(caught.value.problems) == 1


def test_a_second_account_is_refused_with_a_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="accounts: this version of Headrace supports one account"):
        load(tmp_path, REFUSED[0])


@pytest.mark.parametrize("given", [{"username": "x", "password": "y"}, {"token": "x"}])
def test_a_user_or_token_from_the_command_line_is_refused_with_an_account(given: dict[str, str]) -> None:
    check_options(Options(account="A", users=(User("a"),)))
    with pytest.raises(ConfigError, match="supports one account"):
        check_options(Options(account="A", users=(User("a"),), **given))


WRONG = {
    "accounts: x": "Expected a map of accounts with their users",
    "accounts: [A]": "Expected a map of accounts with their users",
    "accounts {A: x}": "Expected map entries for accounts",
    "accounts {$G {users: [{user: a}]}}": '"\\$G" is a Reserved Account',
    'accounts {"../x" {users: [{user: a}]}}': "can not be the name of an account",
    'accounts {".." {users: [{user: a}]}}': "can not be the name of an account",
    "accounts {A {users: a}}": "Expected users field to be an array",
    "accounts {A {users: [{user: a}, {user: a}]}}": 'Duplicate user "a" detected',
    "accounts {A {users: [{user: a}], nosuch: 1}}": 'unknown field "nosuch"',
    "accounts {A {users: [{user: a}], jetstream: maybe}}": "Expected 'enabled' or 'disabled'",
    "accounts {A {users: [{user: a}], jetstream: 5}}": "Expected map, bool or string to define JetStream",
    "accounts {A {users: [{user: a}], jetstream: {max_mem: x}}}": 'Expected a parseable size for "max_mem"',
    "accounts {A {users: [{user: a}], jetstream: {max_bytes: 5}}}": 'a parseable bool for "max_bytes"',
    "accounts {A {users: [{user: a}], jetstream: {nosuch: 5}}}": 'unknown field "nosuch"',
    "accounts {A {users: [{user: a}], jetstream: {cluster_traffic: x}}}": "Expected 'system' or 'owner'",
    "accounts {A {users: [{user: a}]}}\nauthorization {user: a, password: b}": "Can not have a single user",
    "accounts {A {users: [{user: a}]}}\nauthorization {token: b}": "Can not have a token",
    "authorization {user: a, password: b}\naccounts {A {users: [{user: a}]}}": "Can not have a single user",
    "authorization {token: b}\naccounts {A {users: [{user: a}]}}": "Can not have a token and accounts",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_is_reported_where_it_is(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=WRONG[text]) as caught:
        load(tmp_path, text)
    assert isinstance(caught.value, ConfigFileError)
    assert caught.value.problems[0].line


def test_users_of_the_account_can_be_reloaded_but_not_the_account(tmp_path: Path) -> None:
    one = load(tmp_path, "accounts {A {users: [{user: a}]}}")
    two = load(tmp_path, "accounts {A {users: [{user: b}]}}")
    assert plan_reload(one, two).auth_changed
    other = load(tmp_path, "accounts {B {users: [{user: a}]}}")
    with pytest.raises(ConfigError, match="config reload not supported for account: old=A, new=B"):
        plan_reload(one, other)
