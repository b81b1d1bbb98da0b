"""Progress on a terminal: one line, however narrow it is."""

from __future__ import annotations

import sys

import pytest

from headrace.bench.progress import Bar


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_the_bar_fits_into_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Bar("100,000 messages of 128 B from 10 publishers to 10 subscribers") as bar:
        bar(0.42)
    lines = capsys.readouterr().err.split("\r\033[K")
    assert max(map(len, lines)) < columns
    assert lines[2].endswith(" 42%")
