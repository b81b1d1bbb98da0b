"""docs/http.md: its commands print what is shown, and its tables are those of the code."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Server
from headrace.config.http_in import HttpInOptions
from headrace.http_in.lines import MAX_LINES, Line
from headrace.http_in.message import SPELLINGS
from headrace.http_in.outcome import STATUSES
from headrace.http_in.window import LINES_IN_FLIGHT
from tests.http_in.streams import add_stream

TEXT = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
SESSIONS = re.findall(r"^```console\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)
SECONDS = 30


def commands() -> Iterator[tuple[str, str]]:
    """What is typed, with its further lines, and what is printed."""
    for session in SESSIONS:
        for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            first, *rest = part.splitlines()
            more = [line[2:] for line in rest if line.startswith("> ")]
            printed = [line for line in rest if not line.startswith("> ")]
            yield "\n".join([first, *more]), "".join(f"{line}\n" for line in printed)


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_the_commands_print_what_is_shown() -> None:
    ran = list(commands())
    with Server(http_in=-1) as server:
        add_stream(server.url)
        for command, shown in ran:
            assert "http://127.0.0.1:8223/publish/" in command
            typed = command.replace("http://127.0.0.1:8223/publish/", server.http_in_url)
            done = subprocess.run(
                ["sh", "-c", typed.replace("curl ", "curl -sS ", 1)],
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
            assert (done.stdout, done.stderr) == (shown, ""), typed
    assert len(ran) == TEXT.count("\n$ curl") == 6


def test_every_status_is_explained() -> None:
    explained = {int(status) for status in re.findall(r"^\| (\d{3}) \|", TEXT, flags=re.MULTILINE)}
    assert set(STATUSES.values()) | {200, 202, 400, 401, 403, 404, 405, 408, 413, 503, 504} == explained


def test_every_field_and_limit_is_named() -> None:
    assert {name for name in Line.__struct_fields__ if f"`{name}`" not in TEXT} == set()
    assert f"{MAX_LINES:,} lines" in TEXT
    assert f"up to {LINES_IN_FLIGHT} at a time" in TEXT
    defaults = HttpInOptions()
    assert f"`max_connections`, {defaults.max_connections}" in TEXT
    assert f"`timeout`, {defaults.timeout:g} s" in TEXT
    assert f"`max_body`, {defaults.max_body >> 20} MB" in TEXT


def test_headers_of_streams_are_named() -> None:
    named = [name for name in SPELLINGS.values() if not name.startswith(b"Nats-Schedule")]
    assert [name for name in named if f"`{name.decode()}`" not in TEXT] == [
        b"Nats-Expected-Last-Subject-Sequence-Subject"
    ]
