"""`headrace check`: exit codes, lines and figures, against headrace and nats-server."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nats import connect
from nats.aio.client import Client
from nats.js.api import ConsumerConfig, StreamConfig, StreamSource
from prometheus_client.parser import text_string_to_metric_families

from headrace.cli.check.result import Result
from tests.cli.conftest import KINDS
from tests.cli.more.conftest import SYSTEM_KINDS, Broker, started_broker
from tests.cli.more.in_process import run_here
from tests.cli.screens import terminal
from tests.clients import flush
from tests.servers import ServerKind, running_server

OK, WARNING, CRITICAL, UNKNOWN = range(4)


def with_client(broker: Broker, work: Callable[[Client], Awaitable[Any]]) -> None:
    async def main() -> None:
        client = await connect(broker.url)
        await work(client)
        await client.close()

    asyncio.run(main())


def check(broker: Broker, *arguments: str) -> tuple[int, str]:
    """The exit code, and the one line without figures that are different each time."""
    result = broker.run("check", *arguments)
    assert result.errors == ""
    assert result.text.count("\n") == 1
    return result.code, result.text.strip()


@pytest.fixture(scope="module")
def filled(broker: Broker) -> Broker:
    """A stream ORDERS with three messages, a mirror, a source, and a consumer with one unacknowledged."""

    async def fill(client: Client) -> None:
        jetstream = client.jetstream(timeout=30)
        await jetstream.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
        await jetstream.add_stream(StreamConfig(name="MIRROR", mirror=StreamSource(name="ORDERS")))
        await jetstream.add_stream(
            StreamConfig(
                name="ALL",
                sources=[StreamSource(name="ORDERS")],
                metadata={"io.nats.monitor.min-sources": "2"},
            )
        )
        await jetstream.add_consumer("ORDERS", ConsumerConfig(durable_name="worker", ack_policy="explicit"))
        for number in range(3):
            await jetstream.publish(f"orders.{number}", b"order %d" % number)
        puller = await jetstream.pull_subscribe_bind("worker", "ORDERS")
        for number in range(2):  # one by one: at once nats-server gives what its consumer has heard of so far
            (message,) = await puller.fetch(1, timeout=30)
            if number == 0:
                await message.ack_sync(timeout=30)
        for stream in ("MIRROR", "ALL"):
            while (await jetstream.stream_info(stream)).state.messages < 3:
                await asyncio.sleep(0.01)

    with_client(broker, fill)
    broker.ok("kv", "add", "config")
    broker.ok("kv", "put", "config", "a", "x")
    broker.ok("kv", "put", "config", "b", "x")
    broker.ok("kv", "del", "config", "b", "-f")
    return broker


def patient() -> Iterator[str]:
    for what in ("connect", "rtt", "req"):
        yield from (f"--{what}-warn", "1h", f"--{what}-critical", "1h")


def test_connection(broker: Broker) -> None:
    code, line = check(broker, "connection", *patient())
    assert code == OK
    number = r"\d+\.\d{4}s;3600\.0000;3600\.0000"
    assert re.fullmatch(
        rf"OK Connection OK:connected to 127\.0\.0\.1:\d+ in \S+ OK:rtt time \S+ OK:round trip took \S+ \| "
        rf"connect_time={number} rtt={number} request_time={number}",
        line,
    )
    assert check(broker, "conn", "--connect-critical", "1ns")[0] == CRITICAL
    warned = check(broker, "connection", *patient(), "--connect-warn", "1ns")
    assert warned[0] == WARNING
    assert warned[1].startswith("WARNING Connection Warn:connected")


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (("--stream", "ORDERS"), OK, "OK ORDERS OK:0 sources | sources=0"),
        (("--stream", "ORDERS", "--msgs-warn", "2", "--msgs-critical", "1"), OK, "OK:3 messages"),
        (("--stream", "ORDERS", "--msgs-warn", "3", "--msgs-critical", "1"), WARNING, "Warn:3 messages"),
        (("--stream", "ORDERS", "--msgs-warn", "9", "--msgs-critical", "3"), CRITICAL, "Crit:3 messages"),
        (
            ("--stream", "ORDERS", "--subjects-warn", "3", "--subjects-critical", "9"),
            WARNING,
            "Warn:3 subjects",
        ),
        (
            ("--stream", "ORDERS", "--subjects-warn", "9", "--subjects-critical", "3"),
            CRITICAL,
            "Crit:3 subjects",
        ),
        (("--stream", "ORDERS", "--subjects-warn", "2", "--subjects-critical", "1"), OK, "OK:3 subjects"),
        (("--stream", "ORDERS", "--lag-critical", "1"), CRITICAL, "Crit:not mirrored"),
        (("--stream", "ORDERS", "--peer-expect", "3"), CRITICAL, "Crit:Stream is not clustered"),
        (("--stream", "MIRROR", "--lag-critical", "1"), OK, "OK:Mirror ORDERS"),
        (("--stream", "MIRROR", "--seen-critical", "1ns"), CRITICAL, "Crit:Mirror Seen"),
        (("--stream", "ALL"), CRITICAL, "Crit:1 sources"),  # from its metadata
        (("--stream", "ALL", "--min-sources", "1", "--lag-critical", "1"), OK, "OK:1 sources current"),
        (
            ("--stream", "ALL", "--min-sources", "1", "--seen-critical", "1ns"),
            CRITICAL,
            "1 sources are inactive",
        ),
        (("--stream", "ALL", "--min-sources", "1", "--max-sources", "1"), OK, "sources=1;1;1"),
        (("--stream", "NONE"), CRITICAL, "Crit:could not load info: there is no stream NONE"),
    ],
)
def test_stream(filled: Broker, arguments: tuple[str, ...], code: int, part: str) -> None:
    found, line = check(filled, "stream", *arguments)
    assert (found, part in line) == (code, True), line


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (
            (),
            OK,
            "OK:1 unprocessed messages | ack_pending=1 pull_waiting=0 pending=1 redelivered=0",
        ),
        (("--outstanding-ack-critical", "2"), OK, "OK:Ack Pending: 1"),
        (("--outstanding-ack-critical", "1"), CRITICAL, "Crit:Ack Pending: 1"),
        (("--unprocessed-critical", "1"), CRITICAL, "Crit:Unprocessed Messages: 1"),
        (
            ("--waiting-critical", "1", "--redelivery-critical", "1"),
            OK,
            "OK:Waiting Pulls: 0 OK:Redelivered: 0",
        ),
        (("--last-delivery-critical", "1h", "--last-ack-critical", "1h"), OK, "OK:Last ack"),
        (("--last-delivery-critical", "1ns"), CRITICAL, "Crit:Last delivery"),
        (("--pinned",), CRITICAL, "Crit:Not pinned client priority mode"),
    ],
)
def test_consumer(filled: Broker, arguments: tuple[str, ...], code: int, part: str) -> None:
    found, line = check(filled, "consumer", "--stream", "ORDERS", "--consumer", "worker", *arguments)
    assert (found, part in line) == (code, True), line
    found, line = check(filled, "consumer", "--stream", "ORDERS", "--consumer", "none", *arguments)
    assert (found, "consumer not found" in line) == (CRITICAL, True)


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        ((), OK, "OK Stream Message OK:Valid message on ORDERS > >"),
        (("--subject", "orders.1", "--content", "^order 1$"), OK, "size=7B"),
        (("--subject", "orders.1", "--content", "^order 2"), CRITICAL, "does not match regex: ^order 2"),
        (("--age-warn", "1ns", "--age-critical", "1h"), WARNING, "old"),
        (("--age-warn", "1ns", "--age-critical", "2ns"), CRITICAL, "old"),
        (("--subject", "orders.none"), CRITICAL, "no message found"),
        (("--body-timestamp",), CRITICAL, "invalid timestamp body"),
    ],
)
def test_message(filled: Broker, arguments: tuple[str, ...], code: int, part: str) -> None:
    found, line = check(filled, "message", "--stream", "ORDERS", *arguments)
    assert (found, part in line) == (code, True), line


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (("--bucket", "config"), OK, "OK config OK:bucket config | values=2 bytes="),
        (("--bucket", "config", "--key", "a"), OK, "OK:key a found"),
        (("--bucket", "config", "--key", "b"), CRITICAL, "key b of bucket config was deleted"),
        (("--bucket", "config", "--key", "c"), CRITICAL, "has no key c"),
        (("--bucket", "config", "--values-warn", "2", "--values-critical", "4"), WARNING, "Warn:2 values"),
        (("--bucket", "config", "--values-warn", "1", "--values-critical", "0"), OK, "OK:2 values"),
        (("--bucket", "none"), CRITICAL, "there is no bucket none"),
    ],
)
def test_kv(filled: Broker, arguments: tuple[str, ...], code: int, part: str) -> None:
    found, line = check(filled, "kv", *arguments)
    assert (found, part in line) == (code, True), line


def test_jetstream(filled: Broker) -> None:
    code, line = check(filled, "jetstream")
    assert code == OK
    # nats-server counts the consumers of mirrors and sources, too.
    start = r"OK JetStream OK:4 streams, [13] consumers \| memory=0B memory_pct=0%;75;90 storage=\d+B "
    assert re.match(start, line), line
    assert "streams=4" in line
    assert "replicas_ok=4" in line


def test_jetstream_limits(tmp_path: Path) -> None:
    for kind in KINDS:
        config = "accounts { A { jetstream { max_streams: 2 }, users: [ { user: u, password: p } ] } }"
        with started_broker(kind, tmp_path / kind, config=config) as broker:
            url = broker.url.replace("//", "//u:p@")
            run_here("kv", "add", "one", NATS_URL=url)
            arguments = ("check", "js", "--streams-warn", "40", "--streams-critical")
            assert run_here(*arguments, "60", NATS_URL=url).code == WARNING
            assert run_here(*arguments, "45", NATS_URL=url).code == CRITICAL
            assert "invalid thresholds" in run_here(*arguments, "30", NATS_URL=url).text


@contextmanager
def service(broker: Broker) -> Iterator[None]:
    """Somebody else who answers: the command has the thread of the test."""
    ready, done = threading.Event(), threading.Event()

    async def serve(client: Client) -> None:
        async def answer(message: Any) -> None:
            await message.respond(b"pong " + message.data)

        await client.subscribe("ping", cb=answer)
        await flush(client)
        ready.set()
        while not done.is_set():
            await asyncio.sleep(0.01)

    thread = threading.Thread(target=with_client, args=(broker, serve))
    thread.start()
    assert ready.wait(30)
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_request(broker: Broker) -> None:
    with service(broker):
        for arguments, code, part in (
            (("--payload", "x", "--match-payload", "^pong x$"), OK, "OK ping OK:response took"),
            (("--match-payload", "no"), CRITICAL, "Crit:response does not match regexp"),
            (("--match-headers", "A: b"), CRITICAL, "invalid header A = None"),
            (("--response-critical", "1ns"), CRITICAL, "Crit:response took"),
        ):
            found, line = check(broker, "request", "--subject", "ping", *arguments)
            assert (found, part in line) == (code, True), line
    assert "no responders" in check(broker, "req", "--subject", "nobody")[1]


def test_a_server_by_its_monitor_port(broker: Broker) -> None:
    def look(*arguments: str) -> tuple[int, str]:
        return check(broker, "server", "--monitor", broker.monitor, *arguments)

    code, line = look()
    assert code == OK
    assert re.search(r"\| uptime=\S+s cpu=\d+% mem=\d+ connections=\d+ subscriptions=\d+$", line)
    assert look("--js-required")[0] == OK
    assert "Crit:TLS not required" in look("--tls-required")[1]
    assert "Crit:Authentication not required" in look("--auth-required")[1]
    assert look("--mem-warn", "1", "--mem-critical", "1000000000000")[0] == WARNING
    assert look("--mem-warn", "1", "--mem-critical", "2")[0] == CRITICAL
    assert look("--uptime-warn", "1000h", "--uptime-critical", "1ns")[0] == WARNING
    assert look("--conn-warn", "2000", "--conn-critical", "1000")[0] == CRITICAL  # too few
    assert "no TLS certificates found" in look("--tls-cert-warn", "2d", "--tls-cert-crit", "1d")[1]
    assert "wrong server" in look("--name", "other")[1]
    gone = check(broker, "server", "--monitor", "http://127.0.0.1:1")
    assert (gone[0], "connection refused" in gone[1]) == (CRITICAL, True)


@pytest.mark.parametrize("kind", SYSTEM_KINDS)
def test_a_server_by_its_system_account(kind: ServerKind) -> None:
    config = (
        "server_name: main\naccounts { SYS { users: [ { user: s, password: p } ] } }\nsystem_account: SYS"
    )
    with running_server(kind, config=config) as server:
        url = f"nats://s:p@127.0.0.1:{server.port}"
        result = run_here("check", "server", "--name", "main", "--auth-required", NATS_URL=url)
        assert (result.code, result.text[:34]) == (OK, "OK main OK:Authentication required")
    with running_server(kind) as server:
        result = run_here("check", "server", "--name", "x", NATS_URL=f"nats://127.0.0.1:{server.port}")
        assert (result.code, "system account" in result.text) == (CRITICAL, True)


def test_credentials(tmp_path: Path) -> None:
    def write(claims: dict[str, Any]) -> str:
        payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        path = tmp_path / "user.creds"
        path.write_text(
            f"-----BEGIN NATS USER JWT-----\nhead.{payload}.sign\n------END NATS USER JWT------\n"
        )
        return str(path)

    def look(claims: dict[str, Any], *arguments: str) -> tuple[int, str]:
        result = run_here("check", "credential", "--credential", write(claims), *arguments)
        return result.code, result.text

    soon = {"exp": int(time.time()) + 3600}
    assert look(soon)[0] == OK
    assert look(soon, "--validity-warn", "2h", "--validity-critical", "1m")[0] == WARNING
    assert look(soon, "--validity-critical", "2h")[0] == CRITICAL
    assert "is expired" in look({"exp": 1})[1]
    assert "Crit:never expires" in look({})[1]
    assert look({}, "--no-require-expiry")[0] == OK
    for wrong in ({"exp": "x"}, []):
        assert "invalid credential" in look(wrong)[1]  # type: ignore[arg-type]
    assert "not accessible" in run_here("check", "credential", "--credential", "/nowhere").text


def test_formats(filled: Broker, tmp_path: Path) -> None:
    arguments = ("check", "kv", "--bucket", "config", "--values-warn", "1", "--values-critical", "9")
    document = json.loads(filled.run(*arguments, "--format", "json").text)
    assert document["status"] == "WARNING"
    assert (document["check_suite"], document["check_name"]) == ("kv", "config")
    assert document["perf_data"][0] == {"name": "values", "value": 2, "warning": 1, "critical": 9}
    metrics = filled.run(*arguments, "--format", "prometheus")
    assert metrics.code == 0
    samples = {
        sample.name: (sample.labels, sample.value)
        for family in text_string_to_metric_families(metrics.text)
        for sample in family.samples
    }
    assert samples["nats_server_check_kv_values"] == ({"item": "config"}, 2)
    assert samples["nats_server_check_kv_status_code"] == ({"item": "config", "status": "WARNING"}, 1)
    text = filled.run(*arguments, "--format", "text")
    assert (text.code, text.text.splitlines()[0]) == (WARNING, "config: WARNING")
    written = filled.run(*arguments, "--format", "json", "--outfile", str(tmp_path / "result"))
    assert (written.code, written.output) == (WARNING, b"")
    assert json.loads((tmp_path / "result").read_text())["status"] == "WARNING"
    assert [path.name for path in tmp_path.iterdir()] == ["result"]
    nowhere = filled.run(*arguments, "--outfile", str(tmp_path / "no" / "result"))
    assert (nowhere.code, nowhere.text.startswith("UNKNOWN cannot write")) == (UNKNOWN, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("stream",),
        ("connection", "--rtt-warn", "soon"),
        ("message", "--stream", "X", "--content", "("),
        ("stream", "--stream", "a b"),
        ("server",),
        ("nosuch",),
        ("connection", "--format", "xml"),
    ],
)
def test_a_wrong_command_line_is_unknown(arguments: tuple[str, ...]) -> None:
    result = run_here("check", *arguments)
    assert (result.code, result.text.startswith("UNKNOWN "), result.text.count("\n")) == (UNKNOWN, True, 1)


def test_no_server_is_critical() -> None:
    for arguments in (("connection",), ("stream", "--stream", "X"), ("jetstream",), ("kv", "--bucket", "b")):
        result = run_here("check", *arguments, "-s", "nats://127.0.0.1:1")
        assert result.code == CRITICAL
        assert "Crit:connection failed: no server listens at 127.0.0.1:1" in result.text


@pytest.mark.parametrize("kind", KINDS)
def test_no_jetstream_is_critical(kind: ServerKind) -> None:
    with running_server(kind) as server:
        result = run_here("check", "jetstream", NATS_URL=f"nats://127.0.0.1:{server.port}")
        assert (result.code, "has no JetStream" in result.text) == (CRITICAL, True)


def test_tables_fit_the_terminal(broker: Broker) -> None:
    """The terminal fails the test if a line is too long."""
    with terminal("check", "jetstream", "--format", "text", "-s", broker.url, columns=80, lines=40) as shown:
        shown.wait_for("JetStream: OK", "replicas_missing_replicas", "fewer known replicas")
        assert shown.end() == 0


def test_nothing_breaks_the_line() -> None:
    result = Result("kv", 'a"b\n|c')
    result.critical("x | y\nz\x1b[2J")
    assert result.render("nagios", "").count("|") == 0
    assert "\x1b" not in result.render("nagios", "")
    (family,) = text_string_to_metric_families(result.render("prometheus", "n") + "\n")
    assert family.samples[0].labels["item"] == 'a"b\n|c'
