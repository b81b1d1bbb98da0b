"""How far a command is, on a terminal: one line, rewritten, and gone at the end."""

from __future__ import annotations

import io

import pytest

from headrace.cli.stream import progress


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """A screen in place of stderr. Not a fixture: pytest sets its own stderr before it calls the test."""
    shown = Screen()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr(progress, "INTERVAL_SECONDS", 0.0)
    return shown


def test_messages_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = watched(monkeypatch)
    with progress.Progress("copying", 2000) as counter:
        counter.advance(500)
        counter.advance(1000)
    _, first, second, last = screen.getvalue().split(progress.CLEAR_LINE)
    assert first.startswith("headrace: copying 500 messages of 2,000 messages, 25%, ")
    assert second.startswith("headrace: copying 1,500 messages of 2,000 messages, 75%, ")
    assert last == ""
    assert counter.summary().startswith("1,500 messages in ")


def test_bytes_are_counted_and_never_more_than_all(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = watched(monkeypatch)
    with progress.Progress("restoring", 1024, in_bytes=True) as counter:
        counter.advance(2048)
    assert "restoring 2 KiB of 1 KiB, 100%, " in screen.getvalue()


def test_an_unknown_total_has_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = watched(monkeypatch)
    with progress.Progress("importing", 0) as counter:
        counter.advance(1)
    assert "importing 1 message, " in screen.getvalue()


def test_nothing_is_shown_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = watched(monkeypatch)
    with progress.Progress("importing", 10, shown=False) as counter:
        counter.advance(1)
    assert screen.getvalue() == ""
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    with progress.Progress("importing", 10) as counter:
        counter.advance(1)
    assert pipe.getvalue() == ""
