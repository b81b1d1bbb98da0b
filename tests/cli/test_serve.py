"""`headrace serve`."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
import ssl
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats import connect

from tests.cli.commands import Background, assert_one_error_line, run, started
from tests.http_in.requests import post

READY = "Ctrl-C stops the server"


def url_of(server: Background) -> str:
    found = re.search(r"is listening on (nats://\S+:\d+)\n", server.text)
    assert found, server.text
    return found.group(1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_how_to_try_it_and_what_it_did(number: signal.Signals) -> None:
    with started("serve", "-p", "-1", ready=READY) as server:
        url = url_of(server)
        assert url.startswith("nats://127.0.0.1:")
        assert f"headrace sub -s {url} 'greet.*'" in server.text
        with started("sub", "-s", url, "greet.*", "-n", "1", ready="subscribed") as sub:
            assert run("pub", "-s", url, "greet.anna", "Hello").code == 0
            assert sub.process.wait(30) == 0
        assert server.end(number) == 0
        assert server.text.endswith("\nStopped: 2 connections served, 1 message in, 1 out.\n")
        assert server.errors == ""


def test_tls_to_try_out_prints_what_a_client_needs(tmp_path: Path) -> None:
    certificates = tmp_path / "certs"
    arguments = ("serve", "-p", "-1", "--no-streams", "--tls-self-signed", str(certificates))
    with started(*arguments, ready=READY) as server:
        found = re.search(r"is listening on (tls://127\.0\.0\.1:\d+)\n", server.text)
        assert found, server.text
        assert server.errors == f"headrace: made ca.pem and server.pem in {certificates}\n"
        assert f"headrace sub -s {found[1]} --tls-ca {certificates}/ca.pem 'greet.*'" in server.text
        assert f'nats.connect("{found[1]}", tls=tls)' in server.text
        context = re.search(r"tls = (ssl\.create_default_context\(.*\))", server.text)
        assert context

        async def use_it() -> None:
            client = await connect(found[1], tls=eval(context[1], {"ssl": ssl}))
            await client.flush()
            await client.close()

        asyncio.run(use_it())
        assert server.end(signal.SIGINT) == 0
    with started(*arguments, ready=READY) as server:
        assert server.errors == ""  # they were kept
        assert server.end(signal.SIGINT) == 0


def test_a_directory_for_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run("serve", "-p", "-1", "--tls-self-signed", str(tmp_path / "file"))
    assert_one_error_line(result, str(tmp_path / "file"), "choose a directory")


def test_a_taken_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = run("serve", "-p", port)
    assert_one_error_line(result, f"127.0.0.1:{port}", "address already in use", "-p")


@pytest.mark.parametrize("port", ["65536", "-2", "nats", ""])
def test_a_port_that_does_not_exist(port: str) -> None:
    assert_one_error_line(run("serve", "--port", port), "--port", code=2)
    assert_one_error_line(run("serve", "--monitor-port", port), "--monitor-port", code=2)


def test_messages_over_http(tmp_path: Path) -> None:
    """The port of the option, the rest of the file."""
    config = tmp_path / "server.conf"
    config.write_text("http_in { max_body: 3, port: 1 }\n")
    with started("serve", "-p", "-1", "--http-in", "-1", "-c", str(config), ready=READY) as server:
        (url,) = re.findall(r"^Messages over HTTP: POST (\S+)SUBJECT$", server.text, flags=re.MULTILINE)
        assert post(f"{url}a?ack=no", b"123").status == 202
        assert post(f"{url}a?ack=no", b"1234").status == 413
        assert server.end(signal.SIGINT) == 0


def test_an_unknown_host() -> None:
    assert_one_error_line(run("serve", "-p", "-1", "--host", "nothing.invalid"), "nothing.invalid")


def test_a_configuration_file_that_is_not_there() -> None:
    assert_one_error_line(run("serve", "--config", "/nowhere.conf"), "/nowhere.conf", "no such file")


@pytest.mark.parametrize(
    ("text", "part"),
    [("prot: 4222", '"prot"'), ("port: {", "file"), ("port: 99999", "99999"), ("cluster: {}", "clustering")],
)
def test_a_mistake_in_a_configuration_file(tmp_path: Path, text: str, part: str) -> None:
    config = tmp_path / "server.conf"
    config.write_text(text)
    assert_one_error_line(run("serve", "--config", str(config)), part)


def test_options_win_over_the_configuration_file(tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text("port: 1\nmax_payload: 100")
    with started("serve", "--config", str(config), "--port", "-1", ready=READY) as server:
        url = url_of(server)
        assert url.startswith("nats://127.0.0.1:")
        assert_one_error_line(run("pub", "-s", url, "x", "y" * 101), "101 bytes", "at most 100")
        assert server.end() == 0


def test_a_log_file_that_cannot_be_written() -> None:
    assert_one_error_line(run("serve", "-p", "-1", "--log-file", "/nowhere/log"), "/nowhere/log")


def test_the_log_file_has_the_whole_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with started("serve", "-p", "-1", "--log-file", str(path), ready=READY) as server:
        assert server.end() == 0
        assert server.errors == ""
    log = path.read_text()
    assert "[INF] Server is ready" in log
    assert "[INF] Server Exiting.." in log


def test_verbose_and_trace_go_to_stderr() -> None:
    with started("serve", "-p", "-1", "-v", "--trace", ready=READY) as server:
        assert run("pub", "-s", url_of(server), "x", "y").code == 0
        server.wait_for("Client connection closed")
        assert server.end() == 0
        assert "[INF] Server is ready" in server.errors
        assert "[DBG] " in server.errors
        assert "[TRC] " in server.errors


def test_other_machines_without_a_password_earn_a_warning() -> None:
    with started("serve", "-p", "-1", "--host", "0.0.0.0", ready=READY) as server:
        assert server.errors.startswith("headrace: warning: other machines may reach 0.0.0.0")
        assert server.errors.count("\n") == 1
        assert "-s nats://127.0.0.1:" in server.text
        assert server.end() == 0


@pytest.mark.parametrize(
    ("for_server", "for_client", "hint"),
    [
        ({"HEADRACE_TOKEN": "t0ken"}, {"NATS_TOKEN": "t0ken"}, "NATS_TOKEN"),
        (
            {"HEADRACE_USER": "anna", "HEADRACE_PASSWORD": "s3cret"},
            {"NATS_USER": "anna", "NATS_PASSWORD": "s3cret"},
            "NATS_PASSWORD",
        ),
    ],
)
def test_credentials_from_the_environment(
    for_server: dict[str, str], for_client: dict[str, str], hint: str
) -> None:
    with started("serve", "-p", "-1", "--host", "0.0.0.0", ready=READY, **for_server) as server:
        url = url_of(server).replace("0.0.0.0", "127.0.0.1")
        assert hint in server.text
        assert "warning" not in server.errors
        assert_one_error_line(run("pub", "-s", url, "x", "y"), "credentials")
        assert run("pub", "-s", url, "x", "y", **for_client).code == 0
        assert server.end() == 0
        assert not any(
            secret in server.text + server.errors for secret in for_server.values() if secret != "anna"
        )


@pytest.mark.parametrize(
    "arguments",
    [
        ("--user", "anna"),
        ("--password", "x"),
        ("--user", "anna", "--password", "x", "--token", "y"),
        ("extra",),
    ],
)
def test_options_that_do_not_go_together(arguments: tuple[str, ...]) -> None:
    assert_one_error_line(run("serve", "-p", "-1", *arguments), "--help", code=2)


async def store_one(url: str) -> int:
    client = await connect(url)
    streams = client.jetstream(timeout=30)
    await streams.add_stream(name="ORDERS", subjects=["orders.*"])
    ack = await streams.publish("orders.eu", b"hello")
    await client.close()
    return ack.seq


async def read_one(url: str) -> bytes | None:
    client = await connect(url)
    message = await client.jetstream(timeout=30).get_msg("ORDERS", 1)
    await client.close()
    return message.data


def test_streams_are_there_after_a_restart(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    with started("serve", "-p", "-1", "--store", store, ready=READY) as server:
        assert f"Streams are stored in {store}" in server.text
        assert asyncio.run(store_one(url_of(server))) == 1
        assert server.end() == 0
        assert server.errors == ""
    with started("serve", "-p", "-1", "--store", store, ready=READY) as server:
        assert asyncio.run(read_one(url_of(server))) == b"hello"


def test_two_servers_do_not_share_a_store(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    with started("serve", "-p", "-1", "--store", store, ready=READY):
        result = run("serve", "-p", "-1", "--store", store)
    assert_one_error_line(result, store, "in use by another server")


def test_without_streams_no_file_is_written(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with started("serve", "-p", "-1", "--store", str(store), "--no-streams", ready=READY) as server:
        assert "Streams" not in server.text
        assert server.end() == 0
    assert not store.exists()


def test_a_second_server_in_the_same_place_hears_of_the_port_first(tmp_path: Path) -> None:
    """Port and directory are both taken; the port is what its user has to change."""
    store = str(tmp_path / "store")
    with started("serve", "-p", "-1", ready=READY, HEADRACE_STORE=store) as server:
        port = url_of(server).rpartition(":")[2]
        result = run("serve", "-p", port, HEADRACE_STORE=store)
        assert_one_error_line(result, f"127.0.0.1:{port}", "address already in use", "-p")


def test_a_second_server_on_the_same_directory_suggests_its_option(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    with started("serve", "-p", "-1", ready=READY, HEADRACE_STORE=store):
        assert_one_error_line(run("serve", "-p", "-1", HEADRACE_STORE=store), store, "in use", "--store")


def test_a_storage_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert_one_error_line(run("serve", "-p", "-1", HEADRACE_STORE=str(file)), "not a directory", str(file))


def test_a_restart_shows_no_routine_lines(tmp_path: Path) -> None:
    """And a password from the environment is not one that could be hashed in a file."""
    variables = {"HEADRACE_STORE": str(tmp_path), "HEADRACE_USER": "u", "HEADRACE_PASSWORD": "secret"}
    with started("serve", "-p", "-1", ready=READY, **variables) as server:
        asyncio.run(make_stream(url_of(server)))
        assert server.end() == 0
    with started("serve", "-p", "-1", ready=READY, **variables) as server:
        assert server.errors == ""
        assert "Restored" not in server.text


def test_operator_mode_shows_no_routine_lines_either(tmp_path: Path) -> None:
    assert run("auth", "init", str(tmp_path / "nats")).code == 0
    config = str(tmp_path / "nats" / "server.conf")
    with started("serve", "-p", "-1", "-m", "0", "-c", config, ready=READY) as server:
        assert server.errors == ""


async def make_stream(url: str) -> None:
    client = await connect(url, user="u", password="secret")
    await client.jetstream(timeout=30).add_stream(name="S", subjects=["s"])
    await client.close()


@contextlib.contextmanager
def taken_port(port: int) -> Iterator[None]:
    """A server of another test may have it, and end at any time: then we get it. Else it stays taken."""
    end = time.monotonic() + 30
    while True:
        try:
            listening = socket.create_server(("127.0.0.1", port))
            break
        except OSError:
            if time.monotonic() > end:
                yield
                return
            time.sleep(0.05)
    with listening:
        yield


def test_monitoring_is_on_by_default_and_moves_if_its_port_is_taken(tmp_path: Path) -> None:
    """A default is no reason to fail; a port that was asked for is."""
    with taken_port(8222), started("serve", "-p", "-1", "--no-streams", ready=READY) as server:
        (address,) = re.findall(r"Console: (http://127\.0\.0\.1:\d+/console)\n", server.text)
        assert ":8222/" not in address
        with urllib.request.urlopen(address) as page:
            assert b"Headrace console" in page.read()
    with started("serve", "-p", "-1", "-m", "0", "--no-streams", ready=READY) as server:
        assert "Console" not in server.text
        assert "Monitoring" not in server.text
    with started("serve", "-p", "-1", "-m", "-1", "--no-console", "--no-streams", ready=READY) as server:
        assert "Console" not in server.text
        assert "Monitoring: http://127.0.0.1:" in server.text
