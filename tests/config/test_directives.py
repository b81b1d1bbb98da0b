"""Configuration files become options; what is not there yet is refused, never skipped."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.config import (
    ConfigFileError,
    Options,
    User,
    check_options,
    load_file,
    load_options,
    parse_command_line,
)
from headrace.config.directives import DIRECTIVES
from headrace.config.options import DEFAULT_OPTIONS, JetStreamLimits
from headrace.config.unsupported import UNSUPPORTED_DIRECTIVES
from headrace.errors import ConfigError


def load(folder: Path, text: str, *flags: str) -> Options:
    (folder / "test.conf").write_text(text)
    return load_options(parse_command_line(["-c", str(folder / "test.conf"), *flags])).options


def changed(options: Options) -> dict[str, Any]:
    values = msgspec.structs.asdict(options)
    del values["config_path"], values["config_digest"]
    return {name: value for name, value in values.items() if value != getattr(DEFAULT_OPTIONS, name)}


BLOCK = {"has_authorization": True}
EXAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("port: 4333", {"port": 4333}),
    ("port: 0", {}),
    ("port: -1", {"port": -1}),
    ("listen: 4333", {"port": 4333}),
    ("listen: '[::1]:4333'", {"host": "::1", "port": 4333}),
    ("net: localhost", {"host": "localhost"}),
    ("http: localhost:8222", {"http_host": "localhost", "http_port": 8222}),
    ("monitor_port: 8222", {"http_port": 8222}),
    ("http_base_path: nats/", {"http_base_path": "/nats"}),
    ("server_name: x", {"server_name": "x"}),
    ("server_tags: [A, b, a]", {"tags": ("a", "b")}),
    ("server_metadata {k: v}", {"metadata": {"k": "v"}}),
    ("max_connections: 0", {"max_connections": -1}),
    ("max_conn: 7", {"max_connections": 7}),
    ("max_subs: 7", {"max_subscriptions": 7}),
    ("max_sub_tokens: 7", {"max_subscription_tokens": 7}),
    ("max_control_line: 1k", {"max_control_line": 1000}),
    ("max_payload: 8MB", {"max_payload": 8 << 20}),
    ("max_payload: 0", {}),
    ("max_pending: 1GB", {"max_pending": 1 << 30}),
    ("write_deadline: 2s", {"write_deadline": 2.0}),
    ("ping_interval: 1m30s\nping_max: 3", {"ping_interval": 90.0, "ping_max": 3}),
    ("ping_interval: '1.5s'", {"ping_interval": 1.5}),
    (
        "lame_duck_duration: 1h\nlame_duck_grace_period: 100ms",
        {"lame_duck_duration": 3600.0, "lame_duck_grace_period": 0.1},
    ),
    (
        "authorization {user: a, pass: b, timeout: 1}",
        {"username": "a", "password": "b", "auth_timeout": 1.0} | BLOCK,
    ),
    ("authorization {token: t, timeout: 500ms}", {"token": "t", "auth_timeout": 0.5} | BLOCK),
    (
        "authorization {users: [{user: a, password: b}, {user: c}]}\nno_auth_user: c",
        {"users": (User("a", "b"), User("c")), "no_auth_user": "c"} | BLOCK,
    ),
    ("trace_headers: true", {"trace_headers": True, "trace": True}),
    (
        "logfile: x\nlogfile_size_limit: 1k\nlog_max_num: 2",
        {"log_file": "x", "log_size_limit": 1000, "log_max_files": 2},
    ),
    ("pidfile: x\nports_file_dir: y", {"pid_file": "x", "ports_file_dir": "y"}),
    ("no_header_support: true", {"no_header_support": True}),
    ("no_sublist_cache: true", {"disable_sublist_cache": True}),
    ("jetstream: false", {}),
    ("jetstream: disabled", {}),
    ("jetstream {enabled: false}", {}),
    ("jetstream: true", {"jetstream": True}),
    ("jetstream: enabled", {"jetstream": True}),
    ("jetstream {}", {"jetstream": True}),
    ("jetstream {store_dir: x}", {"jetstream": True, "store_dir": "x"}),
    (
        "jetstream {max_mem: 1G, max_file: '2G', domain: hub, unique_tag: ' AZ '}",
        {
            "jetstream": True,
            "jetstream_max_memory": 10**9,
            "jetstream_max_store": 2 << 30,
            "jetstream_domain": "hub",
            "jetstream_unique_tag": "az",
        },
    ),
    (
        "jetstream {max_memory_store: 0, max_file_store: ''}",
        {
            "jetstream": True,
            "jetstream_max_memory": 0,
            "jetstream_max_store": 0,
        },
    ),
    ("jetstream {sync_interval: always}", {"jetstream": True}),
    (
        "jetstream {sync: '2m', strict: false}",
        {
            "jetstream": True,
            "sync_interval": 120.0,
            "jetstream_strict": False,
        },
    ),
    (
        "jetstream {limits {max_ack_pending: 5, duplicate_window: '1m', batch {max_msgs: 7, timeout: 1s}}}",
        {
            "jetstream": True,
            "jetstream_limits": JetStreamLimits(
                max_ack_pending=5, duplicate_window=60.0, max_batch_size=7, max_batch_timeout=1.0
            ),
        },
    ),
    (
        "jetstream {request_queue_limit: 5, max_buffered_msgs: 6, max_buffered_size: 7MB, meta_compact: 1}",
        {
            "jetstream": True,
            "jetstream_request_queue_limit": 5,
        },
    ),
    ("jetstream {request_queue_limit: 0, max_buffered_msgs: 0}", {"jetstream": True}),
    ("default_js_domain {}", {}),
]


@pytest.mark.parametrize(("text", "expected"), EXAMPLES)
def test_directives_set_options(text: str, expected: dict[str, Any], tmp_path: Path) -> None:
    assert changed(load(tmp_path, text)) == expected


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    options = load(tmp_path, "port: 1\nhost: a\ndebug: true\nlogtime: false", "-p", "2", "-D=false")
    assert (options.port, options.host, options.debug, options.logtime) == (2, "a", False, False)


def test_another_base_keeps_its_host_when_the_file_gives_only_a_port(tmp_path: Path) -> None:
    (tmp_path / "test.conf").write_text("listen: 5000")
    base = Options(host="127.0.0.1")
    options = load_options(parse_command_line(["-c", str(tmp_path / "test.conf")]), base).options
    assert (options.host, options.port) == ("127.0.0.1", 5000)


def test_every_mistake_is_reported_in_one_go(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError) as caught:
        load(tmp_path, "port: x\nfoo: 1\nauthorization {user: 5, bar: 1}\ncluster {}")
    lines = [problem.line for problem in caught.value.problems]
    assert lines == [1, 2, 3, 3, 4]
    assert len(str(caught.value).splitlines()) == 5


def test_a_warning_does_not_stop_the_start(tmp_path: Path) -> None:
    (tmp_path / "test.conf").write_text("ping_interval: 5")
    loaded = load_file(str(tmp_path / "test.conf"))
    assert loaded.options.ping_interval == 5.0
    assert ["ping_interval should be converted to a duration" in line for line in loaded.warnings] == [True]


UNSUPPORTED = [
    *(f"{name}: x" for name in UNSUPPORTED_DIRECTIVES),
    *(f"{name} {{}}" for name in UNSUPPORTED_DIRECTIVES),
    "authorization {proxy_required: true}",
    "TLS {ocsp_peer: true}",
    "jetstream {key: secret}",
    "jetstream {encryption_key: secret}",
    "jetstream {prev_ek: secret}",
    "jetstream {cipher: aes}",
    "jetstream {tpm {keys_file: x}}",
    "default_js_domain {A: x}",
    "syslog: true",
    "prof_port: 5",
    "proxy_protocol: true",
    "write_timeout: retry",
]


@pytest.mark.parametrize("text", UNSUPPORTED)
def test_what_is_not_supported_yet_is_an_error_that_says_so(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"does not support .* yet") as caught:
        load(tmp_path, text)
    assert caught.value.line == 1


def test_no_secret_is_shown(tmp_path: Path) -> None:
    options = load(
        tmp_path,
        "authorization {users: [{user: a, password: hunter2}]}",
        "--pass",
        "hunter2",
        "--auth",
        "hunter2",
    )
    assert "hunter2" not in repr(options)
    assert "hunter2" not in repr(parse_command_line(["--pass", "hunter2"]))


def test_every_reader_sets_only_options_that_exist() -> None:
    sample = "a: x\nb: 1\nc: true\nd: 40s\ne: {k: v}\nf: 'h:1'"
    from headrace.config.directives import Context
    from headrace.config.file_format import parse_text
    from headrace.config.problems import Problems

    names = set(Options.__struct_fields__)
    for directive, reader in DIRECTIVES.items():
        for value in parse_text(sample).values():
            problems = Problems()
            with problems.collecting():
                assert set(reader(value, Context(directive, {}, problems))) <= names


@pytest.mark.parametrize(
    ("options", "required", "plaintext"),
    [
        (Options(), False, False),
        (Options(password="x"), False, True),
        (Options(username="x"), True, False),
        (Options(username="x", password="$2a$11$abc"), True, False),
        (Options(token="x"), True, True),
        (Options(users=()), True, False),
        (Options(users=(User("a", "b"),)), True, True),
        (Options(users=(User("a"),)), True, True),
        (Options(users=(User("a", "$2a$11$abc"),)), True, False),
    ],
)
def test_when_clients_must_authenticate(options: Options, required: bool, plaintext: bool) -> None:
    assert (options.auth_required, options.has_plaintext_password) == (required, plaintext)


def test_default_options_are_consistent() -> None:
    check_options(DEFAULT_OPTIONS)
