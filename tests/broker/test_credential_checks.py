"""Slow comparisons have bounds: of threads, of clients that wait, and of the time that they may wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import bcrypt
import msgspec
import pytest

from headrace.accounts.authentication import Identity
from headrace.broker.admission import credential_checks
from headrace.broker.admission.credential_checks import WORKERS, Check, CredentialChecks
from tests.broker.conftest import PATIENCE_SECONDS, Running, Start

VIOLATION = b"-ERR 'Authorization Violation'\r\n"
TIMEOUT = b"-ERR 'Authentication Timeout'\r\n"
ME = {"user": "me", "pass": "secret"}


def hashed(password: bytes) -> dict[str, str]:
    return {"username": "me", "password": bcrypt.hashpw(password, bcrypt.gensalt(4)).decode()}


class Somebody:
    """A client that the lines know of, and nobody else."""

    def __init__(self, *, left: bool = False) -> None:
        self._left = left
        self.was_let_go = False

    def has_left(self) -> bool:
        return self._left

    def on_left(self) -> None:
        self.was_let_go = True


def check_that(compare: object) -> Check:
    return Check(compare=compare, on_compared=lambda _: None, on_bug=lambda _: None)  # type: ignore[arg-type]


@contextmanager
def all_threads_busy(checks: CredentialChecks) -> Iterator[threading.Event]:
    """Until the event is set, or the block ends."""
    gate = threading.Event()
    for _ in range(WORKERS):
        assert checks.check(Somebody(), check_that(lambda: gate.wait(PATIENCE_SECONDS)))
    try:
        yield gate
    finally:
        gate.set()


async def until_waiting(running: Running, clients: int) -> None:
    await running.until(lambda: running.broker.credential_checks.waiting == clients)


async def test_the_clock_runs_while_a_client_waits(start: Start) -> None:
    running = start(**hashed(b"secret"), auth_timeout=0.5)
    with all_threads_busy(running.broker.credential_checks):
        client = await running.raw(**ME)
        assert await client.rest() == TIMEOUT
        assert running.broker.credential_checks.waiting == 0


async def test_who_waited_is_admitted_and_its_clock_stops(start: Start) -> None:
    running = start(**hashed(b"secret"), auth_timeout=30.0)
    with all_threads_busy(running.broker.credential_checks) as gate:
        client = await running.raw(**ME)
        await until_waiting(running, 1)
        gate.set()
        assert await client.ask() == []
    assert all(one not in running.broker.auth_timers for one in running.broker.connections.values())


@pytest.mark.parametrize("unread", [b"", b"PING\r\n" * 20_000])
async def test_who_leaves_gives_up_its_place(start: Start, unread: bytes) -> None:
    running = start(**hashed(b"secret"), auth_timeout=30.0)
    with all_threads_busy(running.broker.credential_checks) as gate:
        for _ in range(10):
            client = await running.raw(user="me", **{"pass": "wrong"})
            client.writer.write(unread)
            await until_waiting(running, len(running.broker.connections))
            await client.close()
        gate.set()
        await running.until(lambda: not running.broker.connections)
    # A check would have logged that it failed.
    assert "authentication error" not in running.log_text()
    assert running.log_text().count("Client connection closed: Client Closed") == 10


async def test_too_many_are_turned_away_at_once(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credential_checks, "MAX_WAITING", 3)
    running = start(**hashed(b"secret"), auth_timeout=1000.0)
    with all_threads_busy(running.broker.credential_checks) as gate:
        waiting = [await running.raw(**ME) for _ in range(3)]
        await until_waiting(running, 3)
        excess = [await running.raw(**ME) for _ in range(20)]
        assert {await client.rest() for client in excess} == {TIMEOUT}
        assert running.broker.credential_checks.waiting == 3
        gate.set()
        for client in waiting:
            assert await client.ask() == []
    assert "too many clients wait for authentication" in running.log_text()


async def test_nothing_else_waits_behind_them(start: Start) -> None:
    running = start(**hashed(b"secret"), auth_timeout=1000.0)
    with all_threads_busy(running.broker.credential_checks):
        for _ in range(50):
            await running.raw(**ME)
        await until_waiting(running, 50)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "done"), PATIENCE_SECONDS) == "done"


async def test_who_waits_during_a_reload_is_checked_by_the_new_rules(start: Start) -> None:
    running = start(**hashed(b"secret"), auth_timeout=1000.0)
    changed = msgspec.structs.replace(running.broker.options, **hashed(b"changed"))
    with all_threads_busy(running.broker.credential_checks) as gate:
        old = await running.raw(**ME)
        new = await running.raw(user="me", **{"pass": "changed"})
        await until_waiting(running, 2)
        running.broker.reload(changed, auth_changed=True, info_changed=False)
        gate.set()
        assert await old.rest() == VIOLATION
        assert await new.ask() == []


async def test_a_bug_in_a_comparison_is_a_violation_and_leaves_a_traceback(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(**hashed(b"secret"))

    def broken(*_: object) -> Identity | None:
        raise ZeroDivisionError("by accident")

    monkeypatch.setattr(running.broker.authenticator, "check", broken)
    client = await running.raw(**ME)
    await client.send(b"PING\r\n")
    assert await client.rest() == VIOLATION
    await running.until(lambda: not running.broker.connections)
    assert "Traceback" in running.log_text()
    assert "by accident" in running.log_text()


async def test_the_two_lines_take_turns() -> None:
    checks, order = CredentialChecks(), list[str]()
    gates = [threading.Event() for _ in range(WORKERS)]
    for gate in gates:
        checks.check(Somebody(), check_that(lambda gate=gate: gate.wait(PATIENCE_SECONDS)))
    last = asyncio.get_running_loop().create_future()
    for place in range(3):
        checks.check(Somebody(), check_that(lambda place=place: order.append(f"new {place}")))
    for place in range(3):
        checks.check_again(Somebody(), check_that(lambda place=place: order.append(f"again {place}")))
    gone = Somebody(left=True)
    checks.check(gone, check_that(lambda: order.append("gone")))
    checks.check(Somebody(), Check(lambda: None, last.set_result, last.set_exception))
    # Only one thread becomes free, so that the checks run in the order in which they are taken.
    gates[0].set()
    await asyncio.wait_for(last, PATIENCE_SECONDS)
    for gate in gates:
        gate.set()
    checks.stop()
    assert order == ["new 0", "again 0", "new 1", "again 1", "new 2", "again 2"]
    assert gone.was_let_go
