"""`headrace events`: advisories of JetStream on both servers, events of the system account."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg

from headrace.cli.events.lines import json_line, line
from tests.cli.commands import SECONDS, assert_one_error_line, run, started
from tests.cli.conftest import KINDS
from tests.cli.more.conftest import SYSTEM_KINDS, Broker, started_broker
from tests.cli.more.in_process import run_here
from tests.servers import ServerKind, reserved_port, running_server

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  "


def test_advisories(broker: Broker) -> None:
    with (
        started("events", "-s", broker.url, ready="listening") as people,
        started(
            "events", "--json", "--filter", "stream_action", "-s", broker.url, ready="listening"
        ) as program,
    ):
        broker.ok("kv", "add", "noticed")
        broker.ok("kv", "ls", "noticed")
        broker.ok("kv", "del", "noticed", "-f")
        for command in (people, program):
            command.wait_for("delete")
        people.wait_for("stream delete")
        assert (people.end(), program.end()) == (0, 0)
        assert re.search(rf"^{TIME}stream create         KV_noticed$", people.text, re.MULTILINE)
        assert re.search(rf"^{TIME}consumer create       KV_noticed > \w+$", people.text, re.MULTILINE)
        assert re.search(rf"^{TIME}stream delete         KV_noticed$", people.text, re.MULTILINE)
        assert "$JS.API.STREAM.CREATE.KV_noticed by cid" in people.text
        events = [json.loads(text) for text in program.text.splitlines()]
        assert [(event["stream"], event["action"]) for event in events] == [
            ("KV_noticed", "create"),
            ("KV_noticed", "delete"),
        ]
        assert people.errors.count("\n") == 1


def test_a_count_ends_it(broker: Broker) -> None:
    arguments = ("events", "-n", "1", "--filter", "counted", "--no-srv-advisory", "-s", broker.url)
    with started(*arguments, ready="listening") as events:
        broker.ok("kv", "add", "counted")
        assert events.process.wait(SECONDS) == 0
        assert events.text.count("\n") == 1


def test_chosen_subjects(broker: Broker) -> None:
    arguments = ("events", "--no-js-advisory", "--no-srv-advisory", "--subjects", "my.*", "-s", broker.url)
    with started(*arguments, ready="listening") as events:
        for payload in ("no json \x1b[2J", '{"type": "org.shop.sold", "n": 1}', "[1]"):
            broker.ok("pub", "my.event", payload)
        events.wait_for("my.event: [1]")
        assert events.end() == 0
        assert events.text.splitlines() == [
            "my.event: no json \\x1b[2J",
            " " * 21 + "sold                  n=1",
            "my.event: [1]",
        ]


@pytest.mark.parametrize("kind", SYSTEM_KINDS)
def test_events_of_the_system_account(kind: ServerKind) -> None:
    config = """
        accounts { SYS { users: [ { user: s, password: p } ] }, A { users: [ { user: a, password: a } ] } }
        system_account: SYS
    """
    with running_server(kind, config=config) as server:
        address = f"127.0.0.1:{server.port}"
        with started("events", "-s", f"nats://s:p@{address}", ready="listening") as events:
            for password in ("a", "b"):
                run_here("pub", "x", "y", NATS_URL=f"nats://a:{password}@{address}")
            events.wait_for("auth error")
            events.wait_for("Client Closed")
            server.process.terminate()
            events.wait_for("shutdown")
            assert events.end() == 0
            shown = events.text
        client = r'cid \d+ "headrace cli" of A at 127.0.0.1, user a, python3 \S+'
        assert re.search(rf"^{TIME}connect               {client}$", shown, re.MULTILINE)
        closed = r": Client Closed \(1 message sent, 0 received\)"
        assert re.search(rf"^{TIME}disconnect            {client}{closed}$", shown, re.MULTILINE)
        assert "Authentication Failure" in shown


@pytest.mark.parametrize("kind", KINDS)
def test_without_permission_for_system_events(kind: ServerKind, tmp_path: Path) -> None:
    config = """
        authorization { users: [
          { user: u, password: p, permissions: { subscribe: { deny: "$SYS.>" } } }
          { user: n, password: p, permissions: { subscribe: { deny: "$JS.>" } } }
        ] }
    """
    with started_broker(kind, tmp_path, config=config) as broker:
        url = broker.url.replace("//", "//u:p@")
        with started("events", "-s", url, ready="listening") as events:
            run_here("kv", "add", "seen", NATS_URL=url)
            events.wait_for("stream create")
            events.wait_for("no permission for $SYS.")
            assert events.end() == 0
            assert "no permission for $SYS." in events.errors
        refused = run("events", "-s", broker.url.replace("//", "//n:p@"))
        assert_one_error_line(refused, "$js.event.advisory.>")


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_goes_and_comes_back(kind: ServerKind, tmp_path: Path) -> None:
    with (
        reserved_port() as port,
        started_broker(kind, tmp_path, "-p", str(port)) as first,
        started("events", "-s", first.url, ready="listening") as events,
    ):
        first.server.process.terminate()
        first.server.process.wait()
        events.wait_for("lost the connection")
        with started_broker(kind, tmp_path, "-p", str(port)) as second:
            events.wait_for("reconnected")
            second.ok("kv", "add", "later")
            events.wait_for("KV_later")
            assert events.end() == 0


def test_wrong_arguments() -> None:
    assert_one_error_line(run_here("events", "--filter", "("), "not a regular expression", code=2)
    assert_one_error_line(run_here("events", "--no-js-advisory", "--no-srv-advisory"), "no events", code=2)
    assert_one_error_line(run_here("events", "--subjects", "a..b"), "empty token")


def event(subject: str, **fields: Any) -> Msg:
    return Msg(_client=nats.NATS(), subject=subject, data=json.dumps(fields).encode())


SAMPLES: list[tuple[str, dict[str, Any], str]] = [
    (
        "max_deliver",
        {"stream_seq": 7, "deliveries": 5},
        "max deliveries        S > C: message 7, 5 deliveries",
    ),
    (
        "terminated",
        {"stream_seq": 7, "deliveries": 1, "reason": "bad"},
        "terminated            S > C: message 7, 1 deliveries bad",
    ),
    ("nak", {"stream_seq": 7, "deliveries": 2}, "nak                   S > C: message 7, 2 deliveries"),
    (
        "consumer_ack",
        {"stream_seq": 7, "deliveries": 1, "ack_time": 1_500_000_000},
        "ack                   S > C: message 7, 1 deliveries, acknowledged after 1.5s",
    ),
    (
        "consumer_pause",
        {"paused": True, "pause_until": "2026-11-16T23:00:00Z"},
        "consumer pause        S > C until 2026-11-16T23:00:00Z",
    ),
    ("consumer_pause", {"paused": False}, "consumer resume       S > C"),
    ("snapshot_create", {}, "backup begins         S"),
    ("restore_complete", {}, "restore ends          S"),
    ("stream_leader_elected", {"leader": "n1"}, "stream leader         S > C: n1"),
    ("brand_new", {"x": "\x1b"}, 'brand new             stream="S" consumer="C" x="\\u001b"'),
    (
        "nak",
        {"stream_seq": None, "stream": None},
        "nak                   None > C: message None, 0 deliveries",
    ),
    ("client_connect", {}, 'client connect        stream="S" consumer="C"'),
    ("consumer_ack", {"stream_seq": 1, "ack_time": "x"}, 'consumer ack          stream="S"'),
]


@pytest.mark.parametrize(("kind", "fields", "expected"), SAMPLES)
def test_lines(kind: str, fields: dict[str, Any], expected: str) -> None:
    document = {
        "type": f"io.nats.jetstream.advisory.v1.{kind}",
        "id": "i",
        "timestamp": "2026-11-16T20:00:00.1Z",
    }
    message = event("$JS.EVENT.ADVISORY.X", **document, **{"stream": "S", "consumer": "C", **fields})
    text = line(1, message).decode()
    assert re.match(TIME, text)
    assert text[21:].startswith(expected)
    assert text.count("\n") == 1
    assert json.loads(json_line(1, message))["stream"] == fields.get("stream", "S")


def test_lines_of_anything() -> None:
    for data in (
        b"",
        b"\xff\x00",
        b"[" * 100_000,
        b"null",
        b"7",
        b'{"type": 7}',
        b'{"timestamp": {}, "server": 1}',
    ):
        message = Msg(_client=nats.NATS(), subject="$SYS.SERVER.X.SHUTDOWN", data=data)
        assert line(1, message).count(b"\n") == 1
        assert json_line(1, message).count(b"\n") == 1
