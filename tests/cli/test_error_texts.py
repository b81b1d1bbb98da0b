"""What errors say: the thing, the value and the way out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import assert_one_error_line
from tests.cli.jetstream import KINDS, done, invoke, jetstream_server


@pytest.fixture(scope="module", params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with jetstream_server(request.param, tmp_path_factory.mktemp("store")) as server:
        done(server, "stream", "add", "ORDERS", "--subjects", "orders.>")
        done(server, "consumer", "add", "ORDERS", "c1", "--pull")
        done(server, "kv", "add", "cfg", "--history", "2")
        yield server


@pytest.mark.parametrize(
    ("line", "texts", "code"),
    [
        (
            "consumer add ORDERS c1 --pull --max-deliver 7",
            ("the stream ORDERS has a consumer c1 with another configuration", "`headrace consumer edit`"),
            1,
        ),
        (
            "kv add cfg --history 5",
            ("there is a bucket cfg with other settings", "remove it first, or choose another name"),
            1,
        ),
        (
            "stream view ORDERS --since yesterday",
            ("'yesterday' is neither a duration (1h) nor a time (2026-11-16T20:30:00Z)",),
            2,
        ),
        (
            "stream view ORDERS --since 2026-11-16",
            ("'2026-11-16' is neither a duration (1h) nor a time (2026-11-16T20:30:00Z)",),
            2,
        ),
        (
            "consumer pause ORDERS c1 tomorrow -f",
            ("'tomorrow' is neither a duration (1h) nor a time (2026-11-16T20:30:00Z)",),
            2,
        ),
        ("stream get ORDERS abc", ("'abc' is not a sequence: give a number such as 42",), 2),
        ("stream get ORDERS 0", ("'0' is not a sequence: give a number such as 42",), 2),
        (f"stream get ORDERS {'9' * 5000}", ("is not a sequence: give a number such as 42",), 2),
    ],
)
def test_an_error_names_the_thing_and_the_way_out(
    url: str, line: str, texts: tuple[str, ...], code: int
) -> None:
    assert_one_error_line(invoke(url, *line.split()), *texts, code=code)


def test_the_help_of_revoke_says_how_a_server_learns_of_it(url: str, tmp_path: Path) -> None:
    text = " ".join(done(url, "auth", "revoke", "--help").text.split())
    assert "Revoke a user's token. A running server learns of it with --server or `auth push`" in text
