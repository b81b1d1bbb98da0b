"""Reports of landing queries: what is kept, what is refused, and what a forged one can do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client

from headrace.config.identity import AccountLimits, AccountOptions
from headrace.config.load import load_file
from headrace.monitor import landings
from headrace.monitor.landings import LandingReport, Landings, read_report
from headrace.server import Server
from tests.clients import flush
from tests.monitor.conftest import Connecter, Starter
from tests.monitor.fetch import fetch

FULL: dict[str, Any] = {
    "id": "0a1b", "stream": "ORDERS", "table": "tables/orders", "format": "delta", "state": "running",
    "seq": 41, "batch": 17, "rows": 40, "rows_per_second": 12.5, "dead_letters": 1, "every": 10,
    "time": "2026-11-16T21:00:00Z",
}  # fmt: skip
SUBJECT = "$HEADRACE.LANDING.ORDERS"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def send(client: Client, subject: str = SUBJECT, **fields: Any) -> None:
    await client.publish(subject, json.dumps({**FULL, **fields}).encode())
    await flush(client)


@pytest.fixture
async def server(start: Starter, tmp_path: Path) -> Server:
    return await start(jetstream=True, store_dir=str(tmp_path))


async def test_the_newest_report_of_each_query_and_stream_is_kept(server: Server, connect: Connecter) -> None:
    kept = Landings(server.broker)
    client = await connect(server.broker.port)
    assert kept.all() == []
    await send(client, seq=1)
    await send(client)
    assert kept.of("$G") == [LandingReport(**FULL)]
    await send(client, id="another")
    await send(client, "$HEADRACE.LANDING.é☃", stream="é☃")  # a query may read several streams
    assert {(report.id, report.stream) for report in kept.of("$G")} == {
        ("0a1b", "ORDERS"),
        ("another", "ORDERS"),
        ("0a1b", "é☃"),
    }
    assert {account for account, _ in kept.all()} == {"$G"}
    assert kept.of("nobody") == []


async def test_a_query_that_does_not_report_is_silent_and_forgotten_after_a_day(
    server: Server, connect: Connecter
) -> None:
    clock = Clock()
    kept = Landings(server.broker, clock)
    client = await connect(server.broker.port)
    await send(client, id="running", every=2)
    await send(client, id="stopped", every=2, state="stopped")
    await send(client, id="failed", every=2, state="failed")

    def states() -> dict[str, str]:
        return {report.id: report.state for report in kept.of("$G")}

    clock.now += 6
    assert states() == {"running": "running", "stopped": "stopped", "failed": "failed"}
    clock.now += 0.1
    assert states() == {"running": "silent", "stopped": "stopped", "failed": "failed"}
    await send(client, id="running", every=2)
    assert states()["running"] == "running"
    clock.now += 24 * 3600 - 6.1
    assert set(states()) == {"running", "stopped", "failed"}
    clock.now += 3
    assert states() == {"running": "silent"}
    clock.now += 24 * 3600
    assert kept.all() == []


BAD: list[dict[str, Any]] = [
    {"id": ""}, {"id": "x" * 256}, {"id": 7}, {"id": "a\nb"}, {"id": None},
    {"stream": "OTHER"}, {"stream": "*"}, {"stream": ""},
    {"table": "a\x00b"}, {"table": "a\x1b[2J"}, {"table": "\u2028"}, {"table": "x" * 1025}, {"table": "\x85"},
    {"state": "silent"}, {"state": "RUNNING"}, {"state": ["running"]},
    {"seq": -1}, {"seq": 2**63}, {"seq": "7"}, {"seq": 1.5}, {"seq": True},
    {"batch": -2}, {"rows": -1}, {"rows": 10**400}, {"rows_per_second": -1}, {"rows_per_second": 1e16},
    {"deletions": -1}, {"dead_letters": {}}, {"every": 0}, {"every": -5}, {"every": 1e9},
    {"time": "x" * 65}, {"format": "\r\n"},
]  # fmt: skip


@pytest.mark.parametrize("fields", BAD, ids=repr)
def test_a_report_that_is_not_valid_is_ignored(fields: dict[str, Any]) -> None:
    assert read_report(SUBJECT.encode(), msgspec.json.encode(FULL)) == LandingReport(**FULL)
    assert read_report(SUBJECT.encode(), json.dumps({**FULL, **fields}).encode()) is None


@pytest.mark.parametrize(
    "payload",
    [b"", b"{}", b"null", b"[]", b"[" * 4000, b'{"id":"\xff"}', b"x" * 4097, b'{"id":"\\ud800"}', b"NaN"],
)
def test_bytes_that_are_not_a_report_are_ignored(payload: bytes) -> None:
    assert read_report(SUBJECT.encode(), payload) is None


def test_fields_of_later_versions_are_ignored() -> None:
    assert read_report(SUBJECT.encode(), json.dumps({**FULL, "more": [1]}).encode()) == LandingReport(**FULL)
    padded = json.dumps({**FULL, "more": "x" * 4096}).encode()
    assert read_report(SUBJECT.encode(), padded) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.dictionaries(st.sampled_from([*FULL, "x"]), inner) | st.lists(inner),
)


@given(st.binary(max_size=100) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_raise(payload: bytes) -> None:
    report = read_report(SUBJECT.encode(), payload)
    assert report is None or report.stream == "ORDERS"


async def test_no_account_can_push_out_the_reports_of_another(
    start: Starter, connect: Connecter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landings, "MAX_REPORTS", 4)
    config = tmp_path / "accounts.conf"
    config.write_text(
        "accounts { A { users: [{user: a, password: x}], jetstream: enabled }\n"
        "B { users: [{user: b, password: x}], jetstream: enabled } }\n"
    )
    loaded = load_file(str(config)).options
    store = str(tmp_path / "store")
    server = await start(accounts=loaded.accounts, users=loaded.users, jetstream=True, store_dir=store)
    kept = Landings(server.broker)
    one = await connect(server.broker.port, user="a", password="x")
    other = await connect(server.broker.port, user="b", password="x")
    await send(one, id="mine")
    for number in range(20):
        await send(other, id=str(number))
    assert [report.id for report in kept.of("A")] == ["mine"]
    assert [report.id for report in kept.of("B")] == ["0", "1", "2"]
    await send(one, id="mine too")
    assert [report.id for report in kept.of("A")] == ["mine", "mine too"]
    assert [report.id for report in kept.of("B")] == ["1", "2"]


async def test_a_new_query_takes_the_place_of_a_silent_one_only(
    server: Server, connect: Connecter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may report can invent names, and none of them may replace a query that reports regularly."""
    monkeypatch.setattr(landings, "MAX_REPORTS", 3)
    clock = Clock()
    kept = Landings(server.broker, clock)
    client = await connect(server.broker.port)

    def names() -> list[str]:
        return sorted(report.id for report in kept.of("$G"))

    for name in ("a", "b", "c"):
        await send(client, id=name)
    assert kept.left_out == 0
    for number in range(20):
        await send(client, id=f"forged {number}", every=86_400)
        clock.now += 1
        for name in ("a", "b"):
            await send(client, id=name)
    assert names() == ["a", "b", "c"]
    assert kept.left_out == 3  # more are not counted
    page = (await fetch(server.monitor.port, "/metrics")).text
    assert 'headrace_metrics_cut{kind="landings"} 3' in page
    clock.now += 11  # c is silent
    for name in ("a", "b", "forged", "forged again"):
        await send(client, id=name, every=86_400)
    assert names() == ["a", "b", "forged"]
    for _ in range(2):
        clock.now += landings.LONGEST_SILENCE_SECONDS
        for name in ("a", "b", "d"):
            await send(client, id=name)
    assert names() == ["a", "b", "d"]  # an interval of a day does not keep a place for a day
    clock.now += 100_000
    assert kept.left_out == 0


async def test_more_reports_than_allowed_are_dropped_unread(server: Server, connect: Connecter) -> None:
    clock = Clock()
    kept = Landings(server.broker, clock)
    client = await connect(server.broker.port)
    for number in range(landings.REPORTS_PER_SECOND + 50):
        await client.publish(SUBJECT, json.dumps({**FULL, "id": str(number)}).encode())
    await flush(client)
    assert len(kept.of("$G")) == landings.REPORTS_PER_SECOND
    clock.now += 1
    await send(client, id="later")
    assert len(kept.of("$G")) == landings.REPORTS_PER_SECOND + 1


async def test_only_accounts_with_streams_have_reports(server: Server, connect: Connecter) -> None:
    kept = Landings(server.broker)
    client = await connect(server.broker.port)
    await send(client)
    before = server.broker.interest.count
    account = server.broker.accounts.of_everybody
    account.options = msgspec.structs.replace(account.options, jetstream=None)
    kept.update()
    assert kept.all() == []
    assert server.broker.interest.count == before - 1
    server.broker.accounts.adopt(AccountOptions(name="NEW", jetstream=AccountLimits()))
    new = server.broker.accounts["NEW"]
    assert new.interest.has(SUBJECT.encode())
    server.broker.accounts.adopt(AccountOptions(name="NEW", jetstream=None))
    assert not new.interest.has(SUBJECT.encode())
