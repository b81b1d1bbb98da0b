"""The `accounts` directive: accounts, their users and their limits."""

from pathlib import Path

import pytest

from headrace.config import ConfigFileError, Options, User, check_options, load_file, plan_reload
from headrace.config.accounts.limits import ACCOUNT_JETSTREAM
from headrace.config.identity import AccountLimits, AccountOptions, ClientLimits, TraceOptions
from headrace.errors import ConfigError

USERS = "users: [{user: foo}, {user: bar, password: secret}]"


def load(directory: Path, text: str) -> Options:
    (directory / "test.conf").write_text(text)
    return load_file(str(directory / "test.conf")).options


def load_account(directory: Path, text: str) -> AccountOptions:
    return load(directory, text).accounts[0]


def load_jetstream(directory: Path, text: str) -> AccountLimits | None:
    return load_account(directory, f"accounts {{ A {{ {USERS}\n jetstream: {text} }} }}").jetstream


def test_the_global_account_has_no_limits() -> None:
    everybody, system = Options().all_accounts
    assert (everybody.name, everybody.jetstream) == ("$G", AccountLimits())
    assert (system.name, system.jetstream) == ("$SYS", None)


def test_the_global_account_has_no_streams_next_to_others(tmp_path: Path) -> None:
    options = load(tmp_path, "accounts { A { jetstream: enabled }, B {} }")
    assert [(account.name, account.jetstream) for account in options.all_accounts] == [
        ("$G", None),
        ("A", AccountLimits()),
        ("B", None),
        ("$SYS", None),
    ]


def test_the_users_of_accounts_become_those_of_the_server(tmp_path: Path) -> None:
    text = f"no_auth_user: foo\naccounts {{ A {{ {USERS} }}, B {{ users: [{{user: b}}] }} }}"
    options = load(tmp_path, text + "\nauthorization { users: [{user: c}] }")
    check_options(options)
    assert options.users is not None
    assert [(user.user, user.account) for user in options.users] == [
        ("foo", "A"),
        ("bar", "A"),
        ("b", "B"),
        ("c", "$G"),
    ]
    assert options.auth_required


def test_all_limits_of_an_account(tmp_path: Path) -> None:
    limits = load_jetstream(
        tmp_path,
        "{max_mem: 64MB, max_file: 32MB, max_streams: 10, max_consumers: 20, max_ack_pending: 100, "
        "memory_max_stream_bytes: 2048, store_max_stream_bytes: 4096, max_stream_bytes: true}",
    )
    assert limits == AccountLimits(
        max_memory=64 << 20,
        max_storage=32 << 20,
        max_streams=10,
        max_consumers=20,
        max_ack_pending=100,
        memory_max_stream_bytes=2048,
        storage_max_stream_bytes=4096,
        max_bytes_required=True,
    )


def test_the_limits_of_its_clients(tmp_path: Path) -> None:
    text = "limits: {max_conn: 1, MAX_SUBS: 2, max_payload: 3, max_leafs: 4294967295}"
    assert load_account(tmp_path, f"accounts {{ A {{ {text} }} }}").limits == ClientLimits(1, 2, 3, -1)


@pytest.mark.parametrize("name", [name for name in ACCOUNT_JETSTREAM if name != "cluster_traffic"])
def test_every_name_of_a_limit_sets_one(name: str, tmp_path: Path) -> None:
    value = "true" if "max_bytes" in name or name == "max_stream_bytes" else "7"
    assert load_jetstream(tmp_path, f"{{{name.upper()}: {value}}}") != AccountLimits()


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
    assert (load_jetstream(tmp_path, text) is not None) is enabled


def test_an_account_that_does_not_ask_for_streams_has_none(tmp_path: Path) -> None:
    assert load_account(tmp_path, f"accounts {{ A {{ {USERS} }} }}").jetstream is None


@pytest.mark.parametrize("text", ["accounts {}", "accounts []", "accounts {A {}}", "accounts: [A, B]"])
def test_without_users_everybody_is_in_the_global_account(text: str, tmp_path: Path) -> None:
    options = load(tmp_path, text)
    assert options.users is None
    assert not options.auth_required


@pytest.mark.parametrize(
    ("text", "anonymous"),
    [
        ("accounts { $SYS { users: [{user: s, password: t}] } }", True),
        ("accounts { $SYS {} }", True),
        ("system_account: S\naccounts { S { users: [{user: s, password: t}] } }", True),
        ("system_account: S\naccounts { S { users: [{user: s, password: t}] }, A {} }", False),
        ("accounts { S { users: [{user: s, password: t}] } }", False),
        ("accounts { $SYS { users: [{user: s}] } }\nauthorization {timeout: 5}", False),
        ("accounts { $SYS { users: [{user: s}] } }\nno_auth_user: s", False),
    ],
)
def test_users_of_the_system_account_alone_keep_nobody_out(
    text: str, anonymous: bool, tmp_path: Path
) -> None:
    options = load(tmp_path, text)
    check_options(options)
    assert options.has_system_account_only is anonymous
    assert options.auth_required


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
    assert (options.users, options.auth_timeout) == ((User("a", account="A"),), 5.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("traces", TraceOptions("traces")),
        ('"traces.$x"', TraceOptions("traces.$x")),
        ("{dest: traces}", TraceOptions("traces")),
        ("{dest: traces, sampling: 5}", TraceOptions("traces", 5)),
        ('{sampling: "25%", dest: traces}', TraceOptions("traces", 25)),
        ('{sampling: "7", dest: traces}', TraceOptions("traces", 7)),
        ("{}", TraceOptions()),
    ],
)
@pytest.mark.parametrize("name", ["msg_trace", "trace_dest", "MSG_TRACE"])
def test_where_traces_of_messages_go(name: str, text: str, expected: TraceOptions, tmp_path: Path) -> None:
    options = load(tmp_path, f"accounts {{A {{users: [{{user: a}}], {name}: {text}}}}}")
    assert options.accounts[0].trace == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("5", 'Expected account message trace "msg_trace" to be a string or a map/struct'),
        ('"a.*"', 'Trace destination "a.*" is not valid'),
        ('""', 'Trace destination "" is not valid'),
        ("{dest: 5}", 'Field "dest" should be a string'),
        ("{dest: a..b}", 'Trace destination "a..b" is not valid'),
        ("{dest: a, sampling: 0}", "Trace destination sampling value 0 is invalid, needs to be [1..100]"),
        ("{dest: a, sampling: 101}", "Trace destination sampling value 101 is invalid"),
        ('{dest: a, sampling: "-5%"}', "Trace destination sampling value -5 is invalid"),
        ('{dest: a, sampling: "half"}', 'Invalid trace destination sampling value "half"'),
        ("{dest: a, sampling: true}", 'Trace destination sampling field "sampling" should be an integer'),
        ("{dest: a, other: 1}", 'Unknown field "other" parsing account message trace map/struct "msg_trace"'),
    ],
)
def test_a_wrong_place_for_traces(text: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError) as caught:
        load(tmp_path, f"accounts {{A {{users: [{{user: a}}], msg_trace: {text}}}}}")
    assert error in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(system_account="S"), "error resolving system account: account missing"),
        (Options(system_account="$SYS"), "error resolving system account: account missing"),
        (
            Options(
                system_account="A", jetstream=True, accounts=(AccountOptions("A", jetstream=AccountLimits()),)
            ),
            "Not allowed to enable JetStream on the system account",
        ),
    ],
)
def test_a_system_account_must_exist_and_has_no_streams(options: Options, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_options(options)


WRONG = {
    "accounts: x": "Expected a map of accounts with their users",
    "accounts: [A, A]": "Duplicate Account Entry: A",
    "accounts: ['$G']": '"\\$G" is a Reserved Account',
    "accounts {A {limits: 5}}": "Expected account limits to be a map/struct",
    "accounts {A {limits: {x: 5}}}": 'Unknown field "x" parsing account limits',
    "accounts {A {nkey: x}}": 'Not a valid public nkey for an account: "x"',
    "accounts {A {users: [{user: a}]}, B {users: [{user: a}]}}": 'Duplicate user "a" detected',
    "accounts {A {users: [{user: a}]}}\nauthorization {users: [{user: a}]}": 'Duplicate user "a"',
    "authorization {users: [{user: a}]}\naccounts {A {users: [{user: a}]}}": 'Duplicate user "a"',
    "system_account: 5": "system account name must be a string",
    "accounts {B {imports: [{stream: {account: A, subject: x}, prefix: p, to: q}]}}": (
        "Stream import can not have a .prefix. and a .to. property"
    ),
    "accounts {A: x}": "Expected map entries for accounts",
    "accounts {$G {users: [{user: a}]}}": '"\\$G" is a Reserved Account',
    'accounts {"../x" {jetstream: enabled}}': "can not be the name of an account",
    'accounts {".." {jetstream: enabled}}': "can not be the name of an account",
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


def test_users_of_an_account_can_be_reloaded(tmp_path: Path) -> None:
    one = load(tmp_path, "accounts {A {users: [{user: a}]}}")
    assert plan_reload(one, load(tmp_path, "accounts {A {users: [{user: b}]}}")).auth_changed


def test_a_share_of_traces_that_go_nowhere_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "test.conf").write_text("accounts {A {users: [{user: a}], msg_trace: {sampling: 5}}}")
    loaded = load_file(str(tmp_path / "test.conf"))
    assert "Trace destination sampling ignored since no destination was set" in str(loaded.warnings)
