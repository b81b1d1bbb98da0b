"""Guessing, timing and leaking of credentials (FAULTS 34, 35, 42)."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import bcrypt
import pytest

from headrace.accounts.authentication import Authenticator, Credentials, matches
from headrace.config.identity import User
from headrace.config.options import Options
from tests.adversity.watch import Bystander, memory
from tests.servers import Server, running_server

PATIENCE_SECONDS = 60.0
VIOLATION = b"-ERR 'Authorization Violation'\r\n"


def connect_with(server: Server, fields: dict[str, str]) -> bytes:
    """What the server says to a CONNECT and a PING, without INFO, until it closes or answers the PING."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as client:
        client.sendall(b"CONNECT " + json.dumps({"verbose": False, **fields}).encode() + b"\r\nPING\r\n")
        received = b""
        try:
            while b"PONG\r\n" not in received and (piece := client.recv(65536)):
                received += piece
        except ConnectionResetError:  # the PING was not read any more; what came before was
            pass
        before, pong, _ = received.partition(b"PONG\r\n")  # the server's own PING may come next
        return (before + pong).partition(b"\r\n")[2]


def guess(password: str, guesses: int) -> None:
    config = f'authorization {{ user: me, password: "{password}", timeout: 60 }}\n'
    hello = b'CONNECT {"verbose":false,"user":"me","pass":"right"}\r\nPING\r\n'
    with running_server("headrace", config) as server:
        before = memory(server.process.pid)
        with Bystander(server.port, hello) as bystander:
            for number in range(guesses):
                said = connect_with(server, {"user": "me", "pass": f"guess {number}"})
                assert said in (VIOLATION, b""), said
        growth = memory(server.process.pid) / before - 1
        log = server.wait_for_log('authentication error - User "me"', guesses)
    print(f"{guesses} wrong passwords: all refused and logged, RSS {growth:+.0%}; {bystander.describe()}")
    assert "guess" not in log
    assert "right" not in log


def hashed(cost: int) -> str:
    return bcrypt.hashpw(b"right", bcrypt.gensalt(cost)).decode()


@pytest.mark.parametrize("password", ["right", hashed(4)], ids=["plain", "bcrypt"])
def test_guesses_are_refused_and_logged(password: str) -> None:
    guess(password, 500)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("password", ["right", hashed(6)], ids=["plain", "bcrypt"])
def test_ten_thousand_guesses_are_refused_and_logged(password: str) -> None:
    guess(password, 10_000)


SECRET = "s" * 4096
WRONG_PLACES = (0, len(SECRET) - 1)
COMPARES = 100_000
ROUNDS = 5


def wrong_at(place: int) -> str:
    """A new string, made in the same way every time: what the memory did before shows in the time, too."""
    characters = bytearray(SECRET.encode())
    characters[place] = ord("x")
    return characters.decode()


def difference(compare: Callable[[str, str], bool], compares: int) -> float:
    """The p value of a sign test: does one of the two wrong guesses take longer more often than the other?

    They are timed in pairs, in random order, so that whatever else the machine does concerns both; and only
    which of them took longer counts, so that one interruption is one vote.
    """
    votes = dict.fromkeys(WRONG_PLACES, 0)
    for _ in range(compares // 2):
        took = {}
        for place in random.sample(WRONG_PLACES, 2):
            given = wrong_at(place)
            began = time.perf_counter_ns()
            compare(SECRET, given)
            took[place] = time.perf_counter_ns() - began
        first, last = took[WRONG_PLACES[0]], took[WRONG_PLACES[1]]
        if first != last:
            votes[WRONG_PLACES[first < last]] += 1
    total = sum(votes.values())
    return math.erfc(abs(votes[0] - total / 2) / math.sqrt(total / 4) / math.sqrt(2))


def stops_at_the_first_difference(secret: str, given: str) -> bool:
    return all(left == right for left, right in zip(secret, given, strict=True))


def assert_the_time_shows_nothing(compares: int) -> None:
    """Noise can make two equal things look different once, a leak does so every time."""
    # The test can tell: a comparison that stops early is found out with far fewer tries.
    assert difference(stops_at_the_first_difference, 200) < 0.01
    values = []
    for _ in range(ROUNDS):
        values.append(difference(matches, compares))
        if values[-1] > 0.01:
            break
    print(f"{compares * len(values)} compares of 4 KB: p = {', '.join(f'{p:.3f}' for p in values)}")
    assert max(values) > 0.01


def test_how_much_of_a_password_is_right_does_not_show_in_the_time() -> None:
    assert_the_time_shows_nothing(COMPARES // ROUNDS)


@pytest.mark.long
def test_how_much_of_a_password_is_right_does_not_show_in_a_hundred_thousand_compares() -> None:
    assert_the_time_shows_nothing(COMPARES)


def cpu_seconds(authenticator: Authenticator, user: str) -> float:
    """What a refusal costs at least, in time of this thread: others do not count."""
    costs = []
    for _ in range(3):
        began = time.thread_time()
        assert authenticator.check(Credentials(user, "wrong")) is None
        costs.append(time.thread_time() - began)
    return min(costs)


@pytest.mark.parametrize("others", ["right", hashed(9)], ids=["one hash", "only hashes"])
def test_whether_a_user_exists_does_not_show_in_the_time(others: str) -> None:
    """A hash takes milliseconds to compare: who is refused at once does not exist, or has another kind."""
    users = (User("hashed", hashed(9)), User("other", others), User("empty"))
    authenticator = Authenticator(Options(users=users))
    costs = {user: cpu_seconds(authenticator, user) for user in ("hashed", "other", "empty", "unknown", "")}
    print(", ".join(f"{user or 'nameless'} {seconds * 1000:.1f} ms" for user, seconds in costs.items()))
    assert min(costs.values()) > max(costs.values()) / 3


CANARY = "c4nary"


def canary(name: str) -> str:
    return f"{CANARY}-{name}"


def test_secrets_are_in_no_log_argument_trace_or_page(tmp_path: Path) -> None:
    """Everything that is secret has the canary in it; everything that the server shows is searched for it."""
    config = tmp_path / "server.conf"

    def write_config(password: str, extra: str = "") -> None:
        users = f'{{user: me, password: "{password}"}}, {{user: other, password: "{canary("other")}"}}'
        config.write_text(
            f"http: 127.0.0.1:-1\ndebug: true\ntrace: true\nauthorization {{ users: [{users}] }}\n{extra}"
        )

    write_config(canary("first"))
    with running_server("headrace", flags=["-c", str(config), "-DV"]) as server:
        pid = server.process.pid
        assert connect_with(server, {"user": "me", "pass": canary("first")}).endswith(b"PONG\r\n")
        for fields in (
            {"user": "me", "pass": canary("wrong")},
            {"user": "nobody", "pass": canary("nobody")},
            {"auth_token": canary("token")},
            {"jwt": canary("jwt"), "sig": canary("sig"), "nkey": canary("nkey")},
            {"user": "me", "pass": canary("typed"), "verbose": "no"},
            {"user": "me", "PASS": canary("upper")},
        ):
            connect_with(server, fields)  # type: ignore[arg-type]
        write_config(canary("second"))
        reload(server, 1, "Reloaded server configuration")
        write_config(canary("third"), "server_name: other\n")
        reload(server, 1, "Failed to reload server configuration")
        write_config(canary("broken") + '"')
        reload(server, 2, "Failed to reload server configuration")
        shown = [
            server.log(),
            Path(f"/proc/{pid}/cmdline").read_text(),
            Path(f"/proc/{pid}/environ").read_text(),
        ]
        shown += [body for path in PAGES for body in [page(server, path)]]
    print(
        f"canaries in log, argv, environment and {len(PAGES)} pages: {sum(CANARY in text for text in shown)}"
    )
    assert [text for text in shown if CANARY in text] == []
    assert any("REDACTED" in text for text in shown)


PAGES = ("/", "/varz", "/connz?auth=1&subs=detail&state=all", "/subsz?subs=1", "/jsz?config=1", "/healthz")


def page(server: Server, path: str) -> str:
    port = int(server.log().partition("Starting http monitor on 127.0.0.1:")[2].split()[0])
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        received = b""
        while piece := client.recv(65536):
            received += piece
    return received.decode()


def reload(server: Server, times: int, text: str) -> None:
    server.process.send_signal(signal.SIGHUP)
    server.wait_for_log(text, times)


def test_secrets_of_headrace_serve_stay_out_of_its_output(tmp_path: Path) -> None:
    """`headrace serve` takes them from the environment, so that they are not in the process list."""
    environment = {**os.environ, "HEADRACE_TOKEN": canary("environment"), "NO_COLOR": "1"}
    output = tmp_path / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "serve", "-p", "-1", "--store", str(tmp_path / "store")],
            env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
        )  # fmt: skip
    try:
        end = time.monotonic() + PATIENCE_SECONDS
        while "Ctrl-C stops the server" not in output.read_text():
            assert time.monotonic() < end, output.read_text()
            assert process.poll() is None, output.read_text()
            time.sleep(0.01)
        assert CANARY not in Path(f"/proc/{process.pid}/cmdline").read_text()
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
    assert CANARY not in output.read_text()
    print("headrace serve with a token from the environment: 0 canaries in output and process list")
