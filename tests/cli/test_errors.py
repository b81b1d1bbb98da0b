"""Errors are printed in one line, with a useful exit code, and never as a traceback."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace import __version__
from tests.cli.commands import assert_one_error_line, environment, run, started
from tests.cli.conftest import KINDS
from tests.servers import reserved_port, running_server

COMMANDS = [("pub", "x", "y"), ("sub", "x"), ("request", "x", "y")]


@contextmanager
def listener(greeting: bytes) -> Iterator[int]:
    """The port of something that greets everyone like this, and is no NATS server."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            while True:
                try:
                    accepted, _ = listening.accept()
                except OSError:
                    return
                accepted.sendall(greeting)
                accepted.close()

        thread = threading.Thread(target=greet)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture(scope="module", params=KINDS)
def guarded_url(request: pytest.FixtureRequest) -> Iterator[str]:
    with running_server(request.param, flags=["--user", "anna", "--pass", "s3cret"]) as server:
        yield f"nats://{server.host}:{server.port}"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
class TestEveryCommand:
    def test_no_server(self, command: tuple[str, ...]) -> None:
        result = run(*command, "-s", "nats://127.0.0.1:1")
        assert_one_error_line(result, "no server listens at 127.0.0.1:1", "headrace serve", "--server")

    def test_no_server_of_several(self, command: tuple[str, ...]) -> None:
        result = run(*command, "-s", "nats://127.0.0.1:1,127.0.0.1:2")
        assert_one_error_line(result, "127.0.0.1:1", "127.0.0.1:2")

    def test_unknown_host(self, command: tuple[str, ...]) -> None:
        result = run(*command, "-s", "nats://user:s3cret@nothing.invalid")
        assert_one_error_line(result, "unknown host in nothing.invalid:4222")
        assert "s3cret" not in result.errors

    @pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"INFO no json\r\n", b""])
    def test_not_a_nats_server(self, command: tuple[str, ...], greeting: bytes) -> None:
        with listener(greeting) as port:
            assert_one_error_line(run(*command, "-s", f"127.0.0.1:{port}"), f"127.0.0.1:{port}")

    @pytest.mark.parametrize(
        "server", ["nats://127.0.0.1:99999", "nats://", "http://127.0.0.1", ",", "ws://x"]
    )
    def test_wrong_url(self, command: tuple[str, ...], server: str) -> None:
        result = run(*command, "-s", server)
        assert_one_error_line(result, code=result.code)
        assert result.code in (1, 2)

    def test_wrong_password(self, command: tuple[str, ...], guarded_url: str) -> None:
        result = run(*command, "-s", guarded_url, "--user", "anna", "--password", "wr0ng")
        assert_one_error_line(result, "does not accept these credentials", "--password")
        assert "wr0ng" not in result.errors

    def test_no_password(self, command: tuple[str, ...], guarded_url: str) -> None:
        assert_one_error_line(run(*command, "-s", guarded_url), "does not accept these credentials")

    def test_password_without_user(self, command: tuple[str, ...]) -> None:
        assert_one_error_line(run(*command, "--password", "x"), "--password needs --user", code=2)


def test_the_right_password(guarded_url: str) -> None:
    assert run("pub", "-s", guarded_url, "x", "y", "--user", "anna", "--password", "s3cret").code == 0
    assert run("pub", "-s", guarded_url, "x", "y", NATS_USER="anna", NATS_PASSWORD="s3cret").code == 0
    assert run("pub", "-s", guarded_url.replace("//", "//anna:s3cret@"), "x", "y").code == 0


@pytest.mark.parametrize("subject", ["", "a b", "a..b", ".a", "a.", "a\tb", "a\r\nPUB", "a.*", ">"])
@pytest.mark.parametrize("command", ["pub", "request"])
def test_bad_subject_to_publish(command: str, subject: str) -> None:
    assert_one_error_line(run(command, "--", subject, "x"), "subject", code=2)


@pytest.mark.parametrize("subject", ["", "a b", "a..b", "a.>.b", "a*", "a.b>"])
def test_bad_subject_to_subscribe(subject: str) -> None:
    assert_one_error_line(run("sub", subject), "subject", code=2)


@pytest.mark.parametrize("header", ["none", ": value", "two words: x", "a\r\nb: c", "grün: x"])
@pytest.mark.parametrize("command", ["pub", "request"])
def test_bad_header(command: str, header: str) -> None:
    assert_one_error_line(run(command, "x", "y", "-H", header), "header", code=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ("pub",),
        ("pub", "x", "y", "z"),
        ("pub", "x", "--count", "0"),
        ("pub", "x", "y", "-H", "a: 1", "-H", "a: 2"),
        ("pub", "x", "y", "--file", "z"),
        ("sub", "x", "--raw", "--json"),
        ("sub", "x", "--queue", "two words"),
        ("sub", "x", "--timeout", "0"),
        ("request", "x", "--timeout", "soon"),
        ("publish", "x"),
        ("--nosuch",),
    ],
)
def test_wrong_command_line(arguments: tuple[str, ...]) -> None:
    assert_one_error_line(run(*arguments), "--help", code=2)


def test_a_file_that_cannot_be_read() -> None:
    assert_one_error_line(run("pub", "x", "--file", "/nowhere"), "cannot read /nowhere")


def test_a_message_that_is_too_large(url: str) -> None:
    result = run("pub", "-s", url, "x", stdin=bytes(1024 * 1024 + 1))
    assert_one_error_line(result, "accepts at most", "max_payload")


def test_a_message_that_is_too_large_with_its_headers(url: str) -> None:
    """nats-py looks at the payload alone. NATS/1.0, two line ends and `a: b` with its own make 18 bytes."""
    result = run("pub", "-s", url, "x", "-H", "a: b", stdin=bytes(1024 * 1024 - 17))
    assert_one_error_line(result, "accepts at most", "max_payload")
    assert run("pub", "-s", url, "x", "-H", "a: b", stdin=bytes(1024 * 1024 - 18)).code == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_connection_is_reported_and_restored(kind: str) -> None:
    with reserved_port() as port, running_server(kind, flags=["-p", str(port)]) as first:
        url = f"nats://127.0.0.1:{port}"
        with started("sub", "-s", url, "x", ready="subscribed") as sub:
            first.process.terminate()
            first.process.wait()
            sub.wait_for("lost the connection")
            with running_server(kind, flags=["-p", str(port)]):
                sub.wait_for(f"reconnected to 127.0.0.1:{port}")
                assert run("pub", "-s", url, "x", "after").code == 0
                sub.wait_for("[1] x: after")
                assert sub.end() == 0
            assert "Traceback" not in sub.errors
            assert all(line.startswith("headrace: ") for line in sub.errors.splitlines())


def test_version_and_help() -> None:
    assert run("--version").text == f"headrace {__version__}\n"
    shown = run("--help")
    assert shown.code == 0
    assert all(f"headrace {command}" in shown.text for command in ("serve", "pub", "sub", "request"))
    bare = run()
    assert (bare.code, bare.output) == (2, b"")
    assert "Usage: headrace" in bare.errors


def modules_of(*arguments: str) -> list[str]:
    """What a command has loaded when it ends."""
    program = (
        f"import sys, json; from headrace.cli.command import run; run({list(arguments)});"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=environment())
    found: list[str] = json.loads(done.stderr.splitlines()[-1])
    return found


def test_a_command_does_not_load_the_others() -> None:
    others = ("check", "kv", "object", "bench", "spark", "serve", "auth", "top", "events")
    assert not {f"headrace.cli.{name}" for name in others} & set(modules_of("pub", "--help"))


def test_help_does_not_load_what_only_commands_need() -> None:
    modules = modules_of("--help")
    loaded = {name.partition(".")[0] for name in modules}
    assert loaded.isdisjoint({"nats", "uvloop", "asyncio", "msgspec", "bcrypt", "ssl"})
    assert not any(name.startswith(("headrace.cli.stream.", "headrace.cli.consumer.")) for name in modules)


def test_a_port_that_is_not_for_clients() -> None:
    with listener(b"") as port:
        result = run("stream", "ls", "-s", f"127.0.0.1:{port}")
    assert_one_error_line(result, "closed the connection at once", "is it the port for clients?")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("stream", "add", "A", "--subjects", "a,b..c"), "subject 'b..c' has an empty token"),
        (("stream", "edit", "A", "--subjects", "a.>.b"), "subject 'a.>.b' has `>` before the end"),
        (("consumer", "add", "A", "C", "--filter", "a b"), "subject 'a b' contains a space"),
    ],
)
def test_a_subject_that_no_server_accepts_is_named(command: tuple[str, ...], message: str) -> None:
    assert_one_error_line(run(*command, "-s", "127.0.0.1:1"), message, code=2)
