"""Plays the sessions of a test module ahead of its tests, several at a time.

Most of the time a session waits: for an answer, or for what must not come. Sessions do not meet: each player
has servers of its own, where it plays sessions with the same settings one after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import pytest

from tests.interop.replay import Stage, Transcript
from tests.interop.session import Session

PLAYERS = 4
MOST_TOGETHER = 60
"""Sessions that one player plays before it stops its servers."""

Comparison = tuple[Transcript, Transcript]


class Ahead:
    """Transcripts of sessions, each as soon as it was played."""

    def __init__(self, played: dict[int, Future[Comparison]]) -> None:
        self._played = played

    def compare(self, session: Session) -> Comparison:
        """The transcripts of the reference and of the server under test."""
        return self._played.pop(id(session)).result()


@contextmanager
def playing_ahead(sessions: Sequence[Session]) -> Iterator[Ahead]:
    """Until the end of this block, in which their transcripts can be had."""
    played: dict[int, Future[Comparison]] = {id(session): Future() for session in sessions}
    ended = Event()
    with ThreadPoolExecutor(PLAYERS) as players:
        for together in _programme(sessions):
            players.submit(_play, together, dict(played), ended)
        try:
            yield Ahead(played)
        finally:
            ended.set()


def sessions_of(request: pytest.FixtureRequest) -> list[Session]:
    """Those that the selected tests of this module have as a parameter."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    calls = [getattr(item, "callspec", None) for item in items if item.module is request.module]
    return [call.params["session"] for call in calls if call is not None and "session" in call.params]


def _programme(sessions: Sequence[Session]) -> list[list[Session]]:
    """Sessions with the same settings together, in the order in which the tests want them."""
    groups: list[list[Session]] = []
    last: dict[str, list[Session]] = {}
    for session in sessions:
        group = last.get(session.settings)
        if group is None or len(group) == MOST_TOGETHER:
            group = last[session.settings] = []
            groups.append(group)
        group.append(session)
    return groups


def _play(sessions: list[Session], played: dict[int, Future[Comparison]], ended: Event) -> None:
    with Stage() as stage:
        for session in sessions:
            if ended.is_set():
                played[id(session)].set_exception(CancelledError())
                continue
            try:
                played[id(session)].set_result(stage.compare(session))
            except BaseException as error:
                played[id(session)].set_exception(error)
