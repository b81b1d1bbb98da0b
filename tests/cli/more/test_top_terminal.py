"""`headrace top` and the terminal: sizes, signals, stops, any names; whatever server it is."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from headrace.cli.top.figures import Request, Snapshot
from headrace.cli.top.terminal import parse_keys
from headrace.cli.top.view import Look, count, screen, volume
from tests.cli.more.conftest import Broker
from tests.cli.screens import assert_restored, terminal
from tests.servers import running_server


@pytest.fixture(scope="module")
def monitor() -> Iterator[str]:
    with running_server("headrace", flags=["-m", "-1"]) as server:
        yield Broker(server).monitor


def test_a_new_size(monitor: str) -> None:
    with terminal("top", "-m", monitor, "-d", "60", columns=200, lines=50) as top:
        top.wait_for("LAST ACTIVITY")
        top.resize(80, 24)
        top.wait_for("BYTES_FROM", "q quit", absent="LAST ACTIVITY")
        top.resize(20, 5)  # not useful, but no error
        top.wait_for("NATS server version")
        top.resize(200, 50)
        top.wait_for("LAST ACTIVITY")
        top.press("q")
        assert top.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_it_and_the_terminal_is_restored(monitor: str, number: int) -> None:
    with terminal("top", "-m", monitor, lines=12) as top:
        top.wait_for("q quit")
        top.process.send_signal(number)
        assert top.end() == 0
        assert_restored(top)


def test_stopping_and_going_on(monitor: str) -> None:
    with terminal("top", "-m", monitor, "-d", "0.2", lines=12) as top:
        top.wait_for("q quit")
        top.press("\x1a")
        _, status = os.waitpid(top.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        top.read_all()
        assert_restored(top)
        top.process.send_signal(signal.SIGCONT)
        top.wait_for("q quit")
        assert top.screen.alternate
        top.press("q")
        assert top.end() == 0
        assert_restored(top)


def test_a_number_of_refreshes(monitor: str) -> None:
    with terminal("top", "-m", monitor, "-d", "0.1", "-r", "2") as top:
        assert top.end() == 0
        assert_restored(top)


def test_every_size_and_any_names() -> None:
    """No line is too long, there are never too many, and no name reaches the terminal as it is."""
    connection = {
        "cid": 1,
        "ip": "::1",
        "port": 1,
        "name": "\x1b[2J\r\n界" * 50,
        "lang": "\x07",
        "rates": {},
        "subscriptions_list": ["\x1b" * 9],
    }
    varz = {"version": "\x1b[31m", "server_name": "\n\n", "server_id": "x" * 300}
    snapshot = Snapshot(Request(), 0.0, varz, [connection] * 20, 100)
    for width in (1, 2, 19, 40, 80, 200):
        for height in (1, 2, 5, 8, 12, 24, 50):
            look = Look(subscriptions=True, first_row=19)
            lines = screen(snapshot, look, "\x1b" * 300, width, height)
            assert len(lines) <= height
            assert all(line.isprintable() for line in lines)


def test_numbers() -> None:
    assert [count(number, False) for number in (0, 999, 1000, 999_949, 999_951, 1.6e6, 1e18)] == [
        "0", "999", "1.0K", "999.9K", "1.0M", "1.6M", "1000000.0T",
    ]  # fmt: skip
    assert [volume(number, False) for number in (0, 1023, 1536, 3 << 30)] == ["0B", "1023B", "1.5K", "3G"]
    assert (count(12345, True), volume(12345, True)) == ("12345", "12345")


def test_keys() -> None:
    assert list(parse_keys("q\x1b[A\r\x1b[6~")) == ["q", "up", "enter", "page down"]
    assert list(parse_keys("\x1b[99~x\x1bn2\n")) == ["x", "escape", "n", "2", "enter"]
