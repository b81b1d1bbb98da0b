"""docs/commands.md as a newcomer follows it: its commands, in this order, print what it shows."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from headrace.cli.command import run
from tests.cli.jetstream import comparable, jetstream_server
from tests.test_docs import ROOT, split_session

PAGE = ROOT / "docs" / "commands.md"
BLOCKS = re.compile(r"^```console\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
ELAPSED = re.compile(r" in [\d.]+[µm]?s ")
AGE = re.compile(r"\b\d+s\b|\(\d+m(\d+s)?\)")
IMPORT_ID = re.compile(r"headrace-import:ORDERS:(\d+):\d+")
SIZE = re.compile(r"\(\d+(\.\d+)? [KM]?i?B\)")


def shown_by(line: str) -> str:
    """What a command prints, on stdout and stderr together."""
    screen = io.BytesIO()
    words = shlex.split(line)
    assert words[0] == "headrace"
    before = sys.stdout, sys.stderr, sys.stdin
    sys.stdout = sys.stderr = io.TextIOWrapper(screen, encoding="utf-8", write_through=True)
    sys.stdin = io.StringIO()
    try:
        run(words[1:])
        sys.stdout.flush()
        return screen.getvalue().decode()
    finally:
        sys.stdout, sys.stderr, sys.stdin = before


def without_figures(text: str) -> str:
    """Times, durations and the sizes of archives differ from day to day."""
    text = IMPORT_ID.sub(r"headrace-import:ORDERS:\1:TIME", ELAPSED.sub(" in TIME ", comparable(text)))
    return AGE.sub("AGE", SIZE.sub("(SIZE)", text)).strip()


def is_long(line: str) -> bool:
    """A document of the API is not printed on the page, where it would hide what matters."""
    return line.endswith("--json")


def test_the_page_shows_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = [step for block in BLOCKS.findall(PAGE.read_text()) for step in split_session(block)]
    assert len(session) > 40
    with jetstream_server("headrace", tmp_path / "store") as url:
        monkeypatch.setenv("NATS_URL", url)
        monkeypatch.chdir(tmp_path)
        for line, expected in session:
            shown = shown_by(line)
            if is_long(line):
                assert shown.startswith("{\n"), (line, shown)
            else:
                assert without_figures(shown) == without_figures(expected), line
