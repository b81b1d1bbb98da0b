"""Permissions in a configuration file: read as nats-server reads them, refused with its words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.config import check_configuration, load_options, parse_command_line
from headrace.config.identity import Permissions, ResponseRule, SubjectRules, User
from headrace.errors import HeadraceError

NATS_SERVER = str(Path(sys.executable).with_name("nats-server"))


def user(fields: str) -> str:
    return f"authorization {{\n users: [\n {{user: a, {fields}}}\n ]\n}}"


def read(tmp_path: Path, text: str) -> tuple[User, ...]:
    path = tmp_path / "test.conf"
    path.write_text(text)
    users = load_options(parse_command_line(["-c", str(path)])).options.users
    assert users is not None
    return users


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", Permissions()),
        ("{publish: foo}", Permissions(publish=SubjectRules(("foo",)))),
        ("{pub: [foo, bar]}", Permissions(publish=SubjectRules(("foo", "bar")))),
        ("{import: foo, export: bar}", Permissions(SubjectRules(("foo",)), SubjectRules(("bar",)))),
        ("{SUB: 'foo q'}", Permissions(subscribe=SubjectRules(("foo q",)))),
        ("{subscribe: {deny: foo}}", Permissions(subscribe=SubjectRules(None, ("foo",)))),
        ("{publish: {allow: [], deny: []}}", Permissions(publish=SubjectRules())),
        ("{publish: {}}", Permissions()),
        ("{publish: []}", Permissions(publish=SubjectRules())),
        ("{allow_responses: false}", Permissions()),
        ("{allow_responses: true}", Permissions(SubjectRules(()), None, ResponseRule(1, 120.0))),
        (
            "{publish: {deny: x}, allow_responses: {max: 3, ttl: '5s'}}",
            Permissions(SubjectRules((), ("x",)), None, ResponseRule(3, 5.0)),
        ),
        (
            "{publish: y, publish_allow_responses: {max_msgs: 0, expires: '0s'}}",
            Permissions(SubjectRules(("y",)), None, ResponseRule()),
        ),
        ("{allow_responses: {max_responses: -1}}", Permissions(SubjectRules(()), None, ResponseRule(-1))),
    ],
)
def test_permissions_are_read(tmp_path: Path, text: str, expected: Permissions) -> None:
    for name in ("permissions", "permission", "authorization"):
        assert read(tmp_path, user(f"{name}: {text}"))[0].permissions == expected


def test_users_without_permissions_get_those_by_default(tmp_path: Path) -> None:
    default, own = Permissions(SubjectRules(("foo",))), Permissions(SubjectRules(("bar",)))
    users = "users: [{user: a}, {user: b, permissions: {publish: bar}}, {user: c, permissions: {}}]"
    expected = [default, own, Permissions()]
    for name in ("default_permissions", "default_permission", "permissions"):
        block = f"authorization {{ {name}: {{publish: foo}}, {users} }}"
        assert [entry.permissions for entry in read(tmp_path, block)] == expected
    account = f"accounts {{ A {{ {users}, default_permissions: {{publish: foo}} }} }}"
    assert [entry.permissions for entry in read(tmp_path, account)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("STANDARD", {"STANDARD"}),
        ("[standard, Websocket, MQTT_WS, in_process]", {"STANDARD", "WEBSOCKET", "MQTT_WS", "IN_PROCESS"}),
        ("[]", None),
    ],
)
def test_connection_types_are_read(tmp_path: Path, text: str, expected: set[str] | None) -> None:
    for name in ("allowed_connection_types", "connection_types", "clients"):
        assert read(tmp_path, user(f"{name}: {text}"))[0].connection_types == expected


WRONG = [
    "permissions: {nosuch: 5}",
    "permissions: {publish: {nosuch: 5}}",
    "permissions: {publish: {allow: 5}}",
    "permissions: {publish: {allow: true}}",
    "permissions: {publish: {deny: {a: b}}}",
    "permissions: {publish: {allow: [a, true ]}}",
    "permissions: {publish: {allow: 'a b'}}",
    "permissions: {publish: {deny: ['a..b']}}",
    "permissions: {publish: {deny: ['a.>.b', c]}}",
    "permissions: {subscribe: {allow: 'a b c'}}",
    "permissions: {subscribe: {allow: 'a..b q'}}",
    "permissions: {subscribe: {deny: 'a q..r'}}",
    "permissions: {subscribe: {deny: ''}}",
    "permissions: {allow_responses: 5}",
    "permissions: {allow_responses: {expires: 5}}",
    "permissions: {allow_responses: {expires: 'x'}}",
    "permissions: {allow_responses: {nosuch: 5}}",
    "connection_types: 5",
    "connection_types: [standard, true ]",
    "connection_types: [standard, nosuch, 'x y']",
    "clients: LEAF",
]


@pytest.mark.parametrize("fields", WRONG)
def test_mistakes_are_reported_as_nats_server_does(tmp_path: Path, fields: str) -> None:
    path = tmp_path / "test.conf"
    path.write_text(user(fields))
    command = [NATS_SERVER, "-t", "-c", str(path)]
    theirs = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert theirs.returncode == 1
    with pytest.raises(HeadraceError) as caught:
        check_configuration(parse_command_line(["-t", "-c", str(path)]))
    assert str(caught.value) == theirs.stderr.strip().removeprefix("nats-server: ")


@pytest.mark.parametrize(
    "fields",
    [
        "permissions: 5",  # nats-server shows the value, which may be a password in the wrong place
        "permissions: {publish: 5}",  # it does not say where
        "permissions: {publish: 'a b'}",
        "permissions: {subscribe: 'a b c'}",
        "permissions: {allow_responses: {max: x}}",  # it shows a panic
    ],
)
def test_other_mistakes_are_reported_with_their_place(tmp_path: Path, fields: str) -> None:
    path = tmp_path / "test.conf"
    path.write_text(user(fields))
    command = [NATS_SERVER, "-t", "-c", str(path)]
    assert subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 1
    with pytest.raises(HeadraceError, match=r"test\.conf:3:\d+: "):
        check_configuration(parse_command_line(["-t", "-c", str(path)]))


def test_the_example_in_the_documentation_is_what_both_servers_accept(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    example = page.partition("## Permissions")[2].partition("```\n")[2].partition("```")[0]
    guest, boss, worker = read(tmp_path, example)
    assert guest.permissions == Permissions(
        SubjectRules(("public.>",)), SubjectRules(("public.>", "_INBOX.>"))
    )
    assert boss.permissions == Permissions()
    assert worker.permissions is not None
    assert worker.permissions.responses == ResponseRule(2, 60.0)
    command = [NATS_SERVER, "-t", "-c", str(tmp_path / "test.conf")]
    assert subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
