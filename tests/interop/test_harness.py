"""The harness itself: it notices differences, and it sees none between two runs of the same server."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from tests.interop import settings
from tests.interop.catalogue import LATER_SESSIONS, SESSIONS, STREAM_SESSIONS
from tests.interop.normalise import Normaliser, split_frames
from tests.interop.replay import replay
from tests.interop.session import Session, connect, connect_line, part, pub, quiet, session
from tests.interop.show import differences
from tests.servers import running_server

FEWEST_SESSIONS = 150
FEWEST_STREAM_SESSIONS = 100

# Settings that change one thing, and a session that has to show it.
CHANGES: dict[str, tuple[str, Session]] = {
    "an error and a close": ("max_payload: 8", session("x", connect(), pub(b"foo", b"123456789"))),
    "a field of INFO": ("max_payload: 8", session("x", part(b""), quiet(), whole_info=True)),
    "a refusal": ("authorization { token: t }", session("x", connect())),
    "a line that is too long": ("max_control_line: 100", session("x", connect(name="n" * 100))),
    "a missing message": (
        "max_subscriptions: 1",
        session("x", connect(), b"SUB a 1\r\nSUB b 2\r\n", pub(b"b", b"hi")),
    ),
    "only a close": (
        settings.NO_HEADERS,
        session("x", connect_line() + b"HPUB foo 0 0\r\n\r\n", only_closes=True),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_server_with_other_settings_is_different(change: str) -> None:
    other_settings, played = CHANGES[change]
    with running_server("nats-server") as usual, running_server("nats-server", other_settings) as other:
        assert differences(replay(usual, played), replay(usual, played)) == ""
        assert differences(replay(usual, played), replay(other, played)) != ""


def test_there_are_enough_sessions_and_their_names_are_unique() -> None:
    assert len(SESSIONS) >= FEWEST_SESSIONS
    assert len(STREAM_SESSIONS) >= FEWEST_STREAM_SESSIONS
    names = Counter(each.name for each in SESSIONS + STREAM_SESSIONS + LATER_SESSIONS)
    assert [name for name, count in names.items() if count > 1] == []


def test_no_session_asks_for_the_effect_of_what_has_no_answer() -> None:
    """nats-server carries out publishes, pulls and questions in threads of their own: `until` waits for one.

    What the permissions refuse does not reach such a thread, and a broken request has no effect.
    """
    hasty = [
        f"{played.name}: {now.data!r}"
        for played in STREAM_SESSIONS
        for before, now in pairwise(step for step in played.steps if b"PUB " in step.data)
        if before.action in ("send", "expect") and not before.messages
        if now.action == "expect" and (b".INFO." in now.data or b".SNAPSHOT." in now.data)
        if not played.name.startswith(("js_permission_refused", "js_broken"))
    ]
    assert hasty == []


def test_messages_in_any_order_are_the_same_set() -> None:
    one, two = b"MSG foo 1 4\r\na\r\nb\r\n", b"HMSG foo 2 2 3\r\n\r\nx\r\n"
    assert split_frames(one + b"+OK\r\n" + two) == [one, b"+OK\r\n", two]
    normaliser = Normaliser(4222, whole_info=False)
    assert normaliser.normalise(one + two, any_order=True) == normaliser.normalise(two + one, any_order=True)
    assert normaliser.normalise(one + two) != normaliser.normalise(two + one)


def test_info_shows_another_port_and_a_changed_client_id() -> None:
    normaliser = Normaliser(4222, whole_info=True)
    first = normaliser.normalise(b'INFO {"port":4222,"client_id":5,"proto":1} \r\n')
    assert first == b'INFO {"client_id": "<this>", "port": "<port>", "proto": 1} \r\n'
    assert normaliser.normalise(b'INFO {"port":4222,"client_id":5,"proto":1} \r\n') == first
    assert normaliser.normalise(b'INFO {"port":4222,"client_id":6,"proto":1} \r\n') != first
    assert normaliser.normalise(b'INFO {"port":1,"client_id":5,"proto":1} \r\n') != first
