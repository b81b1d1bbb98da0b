"""docs/configuration.md knows every flag and directive, and no others."""

import re
from pathlib import Path

import pytest

from headrace.config.accounts.limits import ACCOUNT_JETSTREAM
from headrace.config.directives import DIRECTIVES
from headrace.config.flags import FLAGS
from headrace.config.http_in import FIELDS as HTTP_IN_FIELDS
from headrace.config.jetstream import BATCH_LIMITS, FIELDS, LIMITS
from headrace.config.reload import RELOADABLE_OPTIONS
from headrace.config.unsupported import (
    UNSUPPORTED_FLAGS,
)
from headrace.config.websocket import FIELDS as WEBSOCKET_FIELDS

TEXT = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
WORDS = set(re.findall(r"`([^`\n]+)`", TEXT))
FLAG_NAMES = [name for flag in FLAGS for name in flag.names] + list(UNSUPPORTED_FLAGS)


@pytest.mark.parametrize("name", FLAG_NAMES)
def test_every_flag_is_documented(name: str) -> None:
    assert {f"-{name}", f"--{name}"} & WORDS


@pytest.mark.parametrize(
    "name",
    [
        *DIRECTIVES,
        *ACCOUNT_JETSTREAM,
        *FIELDS,
        *LIMITS,
        *BATCH_LIMITS,
        *WEBSOCKET_FIELDS,
        *HTTP_IN_FIELDS,
    ],
)
def test_every_directive_is_documented(name: str) -> None:
    assert name in WORDS


def test_no_other_flag_is_documented() -> None:
    documented = {
        match.group(1) for word in WORDS if (match := re.fullmatch(r"--?(\w+)", word)) and word != "-1"
    }
    assert documented <= set(FLAG_NAMES)


def test_no_other_directive_is_in_the_tables() -> None:
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", TEXT, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert documented
    assert documented <= set(DIRECTIVES) | set(FIELDS) | set(WEBSOCKET_FIELDS) | set(HTTP_IN_FIELDS)


# Options whose directive has another name, or that are parts of the authorization block.
DIRECTIVE_OF = {
    "tags": "server_tags",
    "metadata": "server_metadata",
    "trust": "resolver_preload",
} | dict.fromkeys(
    ("username", "password", "token", "users", "auth_timeout", "has_authorization", "callout", "python_hook"),
    "authorization",
)


def test_the_list_of_reloadable_directives_is_right() -> None:
    paragraph = TEXT[
        TEXT.index("These can change while the server runs") : TEXT.index("If anything else has changed")
    ]
    expected = {DIRECTIVE_OF.get(name, name) for name in RELOADABLE_OPTIONS}
    assert set(re.findall(r"`(\w+)`", paragraph)) == expected


def test_the_example_file_is_valid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from headrace.config import load_file

    monkeypatch.setenv("BOB_PASSWORD", "secret")
    example = TEXT.split("## The file")[1].split("```")[1]
    (tmp_path / "example.conf").write_text(example)
    (tmp_path / "more.conf").write_text("debug: true")
    loaded = load_file(str(tmp_path / "example.conf"))
    assert loaded.warnings == ()
    assert [user.user for user in loaded.options.users or ()] == ["alice", "bob"]
    assert (loaded.options.max_payload, loaded.options.ping_interval, loaded.options.debug) == (
        8 << 20,
        30.0,
        True,
    )
