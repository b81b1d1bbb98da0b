"""`from headrace import Server`, as a program uses it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import nats
import pytest

from headrace import Server
from headrace.embedded.store import PREFIX, YOUNG_SECONDS, remove_abandoned
from headrace.errors import ConfigError, UsageError
from tests.certificates import Authority

SECONDS = 30.0


async def echo(url: str, **options: object) -> bytes:
    """One message from a client to itself."""
    client = await nats.connect(url, **options)
    subscription = await client.subscribe("greet.*")
    await client.publish("greet.anna", b"hello")
    message = await subscription.next_msg(timeout=SECONDS)
    await client.close()
    return message.data


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def run(script: str, **options: object) -> subprocess.CompletedProcess[str]:
    """A program of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        **options,
    )


# -- a block


def test_a_block_has_a_server_that_is_ready_and_gone_afterwards() -> None:
    with Server() as server:
        port, store = server.port, server.store_dir
        assert server.url == f"nats://127.0.0.1:{port}"
        assert asyncio.run(echo(server.url)) == b"hello"
        assert Path(store, "jetstream").is_dir()
    assert not is_listening(port)
    assert not Path(store).exists()
    assert not server.is_running


async def test_an_asynchronous_block_lets_the_loop_go_on() -> None:
    """With a start that must wait for this loop: a blocking one would never end."""
    held = asyncio.Event()

    async def hold_the_store(path: Path) -> None:
        import fcntl

        (path / "jetstream").mkdir()
        descriptor = os.open(path / "jetstream", os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        held.set()
        await asyncio.sleep(0.3)  # the loop must run meanwhile, or the lock stays
        os.close(descriptor)

    with tempfile.TemporaryDirectory() as directory:
        holder = asyncio.create_task(hold_the_store(Path(directory)))
        await held.wait()
        async with Server(store_dir=directory) as server:
            assert holder.done()
            assert await echo(server.url) == b"hello"
            port = server.port
    assert not is_listening(port)


async def test_a_start_that_is_cancelled_leaves_nothing() -> None:
    before = set(threading.enumerate())
    server = Server()
    start = asyncio.create_task(server.start_async())
    await asyncio.sleep(0)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert not server.is_running
    assert not server.store_dir
    assert {t.name for t in set(threading.enumerate()) - before if t.name.startswith("headrace")} == set()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_a_block_that_raises_has_no_server_afterwards(error: type[BaseException]) -> None:
    server = Server()
    with pytest.raises(error), server:  # noqa: PT012
        port, store = server.port, server.store_dir
        raise error
    assert not is_listening(port)
    assert not Path(store).exists()


async def test_several_servers_do_not_know_of_each_other() -> None:
    async with Server() as one, Server() as two, Server(jetstream=False) as three:
        assert len({one.port, two.port, three.port}) == 3
        clients = [await nats.connect(server.url) for server in (one, two, three)]
        await clients[0].jetstream().add_stream(name="ORDERS", subjects=["orders.*"])
        with pytest.raises(nats.js.errors.NotFoundError):
            await clients[1].jetstream().stream_info("ORDERS")
        for client in clients:
            await client.close()
        assert await echo(three.url) == b"hello"


def test_start_and_stop_are_a_block_without_indentation() -> None:
    server = Server().start()
    port = server.port
    with pytest.raises(UsageError, match="running already"):
        server.start()
    server.stop()
    server.stop()
    assert not is_listening(port)
    with pytest.raises(UsageError, match="not running"):
        _ = server.url
    with server:  # and once more
        assert is_listening(server.port)


# -- stores


async def publish(url: str, payload: bytes) -> int:
    client = await nats.connect(url)
    streams = client.jetstream()
    await streams.add_stream(name="ORDERS", subjects=["orders.*"])
    ack = await streams.publish("orders.eu", payload)
    await client.close()
    return ack.seq


async def test_a_store_is_kept_for_the_next_server(tmp_path: Path) -> None:
    async with Server(store_dir=tmp_path) as server:
        assert server.store_dir == str(tmp_path)
        assert await publish(server.url, b"one") == 1
    async with Server(store_dir=str(tmp_path)) as server:
        assert await publish(server.url, b"two") == 2


async def test_a_restart_keeps_port_and_streams_and_clients_come_back() -> None:
    reconnected = asyncio.Event()

    async def on_reconnect() -> None:
        reconnected.set()

    async with Server(monitor_port=-1) as server:
        await publish(server.url, b"one")
        url, monitor_url, store = server.url, server.monitor_url, server.store_dir
        client = await nats.connect(url, reconnected_cb=on_reconnect, reconnect_time_wait=0.05)
        await asyncio.to_thread(server.restart)
        assert (server.url, server.monitor_url, server.store_dir) == (url, monitor_url, store)
        await asyncio.wait_for(reconnected.wait(), SECONDS)
        assert (await client.jetstream().stream_info("ORDERS")).state.messages == 1
        await client.close()
    assert not Path(store).exists()


def test_a_temporary_store_that_somebody_removes_is_gone() -> None:
    with Server() as server:
        shutil.rmtree(server.store_dir)
    assert not server.is_running


def test_what_a_killed_program_left_behind_is_removed_by_the_next(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    done = run("import os; from headrace import Server; Server().start(); os.kill(os.getpid(), 9)")
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.glob(f"{PREFIX}*")
    remove_abandoned()
    assert left.exists(), "it is young, and may be somebody's who has not locked it yet"
    with Server() as server:
        old = time.time() - 2 * YOUNG_SECONDS
        os.utime(left, (old, old))
        os.utime(server.store_dir, (old, old))
        remove_abandoned()
        assert not left.exists()
        assert Path(server.store_dir).exists(), "its server runs"


# -- options


async def test_options_are_keywords() -> None:
    async with Server(
        max_payload=1000, ping_interval="2m", token="s3cret", server_name="mine", monitor_port=-1
    ) as server:
        client = await nats.connect(server.url, token="s3cret")
        assert client.max_payload == 1000
        await client.close()
        varz = await asyncio.to_thread(lambda: urllib.request.urlopen(f"{server.monitor_url}/varz").read())
    document = json.loads(varz)
    assert document["server_name"] == "mine"
    assert document["ping_interval"] == 120_000_000_000


async def test_users_are_a_keyword() -> None:
    users = [
        {"user": "anna", "password": "a", "permissions": {"publish": "a.>"}},
        {"user": "b", "password": "b"},
    ]
    async with Server(users=users) as server:
        assert await echo(server.url, user="b", password="b") == b"hello"


CONFIG = "max_payload: 500\nauthorization { token: s3cret }\n"


@pytest.mark.parametrize("form", ["text", "file", "path", "dict"])
async def test_a_configuration_has_four_forms(form: str, tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    path.write_text(CONFIG)
    config = {
        "text": CONFIG,
        "file": str(path),
        "path": path,
        "dict": {"max_payload": 500, "authorization": {"token": "s3cret"}},
    }[form]
    async with Server(config=config, max_connections=7) as server:
        client = await nats.connect(server.url, token="s3cret")
        assert client.max_payload == 500
        await client.close()


async def test_tls_and_websocket_have_urls(tmp_path: Path) -> None:
    files = Authority(tmp_path).issue("server")
    tls = {"cert_file": files.certificate, "key_file": files.key}
    with Server(tls=tls, websocket={"port": -1, "no_tls": True}, host="0.0.0.0") as server:
        assert server.url.startswith("tls://127.0.0.1:")
        assert server.websocket_url.startswith("ws://127.0.0.1:")
    with Server() as server, pytest.raises(UsageError, match="no websocket"):
        _ = server.websocket_url
    with Server() as server, pytest.raises(UsageError, match="no monitor"):
        _ = server.monitor_url


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"max_paylod": 1}, UsageError, "Server has no option max_paylod"),
        ({"no_sigs": False}, UsageError, "Server has no option no_sigs"),
        ({"cluster": {}}, UsageError, "Server has no option cluster"),
        (
            {"max_payload": "much"},
            ConfigError,
            "Server\\(max_payload=...\\): expected an integer, got a string",
        ),
        ({"token": 1}, UsageError, "Server\\(token=...\\) takes str, not int"),
        ({"ping_interval": "soon"}, ConfigError, "ping_interval"),
        ({"authorization": {"tokn": "x"}}, ConfigError, "Server\\(authorization=...\\)"),
        ({"max_payload": 100, "max_pending": 10}, ConfigError, "cannot be higher"),
        ({"config": "/nowhere/server.conf"}, ConfigError, "/nowhere/server.conf"),
        ({"config": {"tls": object()}}, ConfigError, "cannot hold object"),
        ({"config": "cluster { port: 1 }"}, ConfigError, "cluster"),
    ],
)
def test_wrong_options_are_errors(options: dict[str, object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Server(**options)


def test_a_wrong_name_brings_the_nearest_one() -> None:
    with pytest.raises(UsageError) as raised:
        Server(max_paylod=1)
    assert raised.value.hint == "did you mean max_payload?"


def test_a_port_in_use_is_an_error_and_leaves_nothing() -> None:
    with Server() as server:
        second = Server(port=server.port)
        with pytest.raises(UsageError, match="address already in use"):
            second.start()
        assert not second.is_running
        assert not second.store_dir


# -- the log


def test_the_log_goes_to_logging(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "headrace")
    with Server(password="secret", username="anna"):
        pass
    records = [record for record in caplog.records if record.name == "headrace"]
    assert "Server is ready" in [record.message for record in records]
    assert [record for record in records if record.levelname != "INFO"] == []
    assert "secret" not in caplog.text


def test_a_log_file_is_as_that_of_any_server(tmp_path: Path) -> None:
    with Server(log_file=str(tmp_path / "log")):
        pass
    assert "[INF] Server is ready" in (tmp_path / "log").read_text()


def test_a_quiet_server_prints_nothing() -> None:
    done = run("from headrace import Server\nwith Server(token='x') as server: print(server.is_running)")
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)


# -- the end of the program


FORGOTTEN = """
import asyncio, nats
from headrace import Server
server = Server().start()
print(server.port, server.store_dir)

async def use():
    client = await nats.connect(server.url)
    streams = client.jetstream()
    await streams.add_stream(name="ORDERS", subjects=["orders.*"])
    await streams.pull_subscribe("orders.*", durable="shop")
    await streams.publish("orders.eu", b"one")
    await client.close()

asyncio.run(use())
"""


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "raise ValueError('mine')"])
def test_a_server_that_is_forgotten_ends_with_its_program(end: str) -> None:
    done = run(FORGOTTEN + end)
    port, store = done.stdout.split()
    assert not is_listening(int(port))
    assert not Path(store).exists()
    assert done.stderr.splitlines()[-1:] == (["ValueError: mine"] if "Value" in end else [])


def test_ctrl_c_ends_a_program_that_waits_in_a_block() -> None:
    script = (
        "import time\nfrom headrace import Server\n"
        "with Server() as server:\n"
        "    print(server.port, server.store_dir, flush=True)\n"
        "    time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    port, store = process.stdout.readline().split()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS)
    assert errors.decode().splitlines()[-1] == "KeyboardInterrupt"
    assert not is_listening(int(port))
    assert not os.path.exists(store)


def test_a_fork_leaves_the_server_to_its_program() -> None:
    script = """
import asyncio, os, sys
from headrace import Server
with Server() as server:
    child = os.fork()
    if child == 0:
        server.stop()     # it has no server: nothing happens
        sys.exit(7)       # and runs what a program does at its end
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert os.path.isdir(server.store_dir)
    import nats
    async def use():
        client = await nats.connect(server.url)
        await client.flush()
        await client.close()
    asyncio.run(use())
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


def test_importing_the_package_loads_no_server() -> None:
    script = "import sys, headrace; print([m for m in sys.modules if m.startswith(('headrace.', 'msgspec'))])"
    assert run(script).stdout == "[]\n"
    with pytest.raises(ImportError):
        from headrace import Servers  # noqa: F401
