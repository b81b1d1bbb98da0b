"""`headrace pub` and `headrace sub`."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.commands import COMMAND, SECONDS, environment, run, started

BINARY = bytes(range(256))


def test_a_message_reaches_a_subscriber(url: str) -> None:
    with started("sub", "-s", url, "greet.anna", ready="subscribed to greet.anna") as sub:
        published = run("pub", "-s", url, "greet.anna", "Hello, Anna")
        assert (published.code, published.errors) == (0, "")
        assert published.text == "Published 1 message to greet.anna (11 bytes)\n"
        sub.wait_for("Hello, Anna")
        assert sub.end() == 0
        assert sub.text == "[1] greet.anna: Hello, Anna\n"
        assert sub.errors.endswith("headrace: 1 message received\n")


def test_wildcards(url: str) -> None:
    wanted = {"w.*": ["w.a", "w.b"], "w.>": ["w.a", "w.b", "w.b.c"], "w.*.c": ["w.b.c"], "w.a": ["w.a"]}
    host, port = url.removeprefix("nats://").split(":")
    with ExitStack() as stack:
        subs = {
            pattern: stack.enter_context(started("sub", "-s", url, pattern, "--json", ready="subscribed"))
            for pattern in wanted
        }
        publisher = stack.enter_context(socket.create_connection((host, int(port))))
        publisher.sendall(
            b"".join(b"PUB %s 1\r\nx\r\n" % subject for subject in (b"v.a", b"w.a", b"w.b", b"w.b.c"))
        )
        for pattern, sub in subs.items():
            sub.wait_for(wanted[pattern][-1])
            assert sub.end() == 0
            assert [json.loads(line)["subject"] for line in sub.text.splitlines()] == wanted[pattern]


def test_json_has_everything(url: str) -> None:
    with started("sub", "-s", url, "all", "--json", "-n", "3", ready="subscribed") as sub:
        run("pub", "-s", url, "all", "grüße", "-H", "Trace-Id: 7", "-H", "Empty:", "--reply", "answers.here")
        run("pub", "-s", url, "all", stdin=BINARY)
        run("pub", "-s", url, "all")
        assert sub.process.wait(SECONDS) == 0
        assert [json.loads(line) for line in sub.text.splitlines()] == [
            {
                "subject": "all",
                "reply": "answers.here",
                "headers": {"Trace-Id": "7", "Empty": ""},
                "size": 7,
                "data": "grüße",
            },
            {
                "subject": "all",
                "reply": None,
                "headers": {},
                "size": 256,
                "data_base64": base64.b64encode(BINARY).decode(),
            },
            {"subject": "all", "reply": None, "headers": {}, "size": 0, "data": ""},
        ]


def test_raw_is_byte_for_byte(url: str, tmp_path: Path) -> None:
    file = tmp_path / "payload"
    file.write_bytes(BINARY)
    with started("sub", "-s", url, "raw", "--raw", "-n", "3", ready="subscribed") as sub:
        assert run("pub", "-s", url, "raw", "--file", str(file)).code == 0
        assert run("pub", "-s", url, "raw", "-", stdin=b"piped\r\n").code == 0
        assert run("pub", "-s", url, "raw", "PUB x 1\r\n").code == 0
        assert sub.process.wait(SECONDS) == 0
        assert sub.output == BINARY + b"piped\r\nPUB x 1\r\n"


def test_people_see_headers_and_no_control_characters(url: str) -> None:
    with started("sub", "-s", url, "people", "-n", "2", ready="subscribed") as sub:
        run("pub", "-s", url, "people", "two\nlines\x1b[31m", "-H", "Trace-Id: 7", "--reply", "back")
        run("pub", "-s", url, "people", stdin=b"\xff\x00")
        assert sub.process.wait(SECONDS) == 0
        assert sub.text == (
            "[1] people (reply to back): two\n    lines\\x1b[31m\n    Trace-Id: 7\n"
            "[2] people: <2 bytes: ff 00>\n"
        )


def test_headers_only_leaves_payloads_out(url: str) -> None:
    with (
        started("sub", "-s", url, "h", "--headers-only", "-n", "1", ready="subscribed") as people,
        started("sub", "-s", url, "h", "--headers-only", "--json", "-n", "1", ready="subscribed") as program,
    ):
        run("pub", "-s", url, "h", "secret", "-H", "Kind: test")
        assert people.process.wait(SECONDS) == program.process.wait(SECONDS) == 0
        assert people.text == "[1] h: 6 bytes\n    Kind: test\n"
        assert json.loads(program.text) == {
            "subject": "h",
            "reply": None,
            "headers": {"Kind": "test"},
            "size": 6,
        }


def test_a_queue_group_shares_and_a_plain_subscriber_gets_all(url: str) -> None:
    arguments = ("sub", "-s", url, "jobs", "--queue", "workers", "--json")
    with (
        started(*arguments, ready="in queue group workers") as first,
        started(*arguments, ready="in queue group workers") as second,
        started("sub", "-s", url, "jobs", "-n", "60", "--json", ready="subscribed") as everything,
    ):
        assert run("pub", "-s", url, "jobs", "x", "-n", "60").code == 0
        assert everything.process.wait(SECONDS) == 0
        deadline = time.monotonic() + SECONDS
        while first.text.count("\n") + second.text.count("\n") < 60 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert first.end() == second.end() == 0
        shares = [first.text.count("\n"), second.text.count("\n")]
        assert sum(shares) == 60
        assert min(shares) > 0
        assert everything.text.count("\n") == 60


def test_pub_count_and_interval(url: str) -> None:
    with started("sub", "-s", url, "many", "-n", "3", ready="subscribed") as sub:
        published = run("pub", "-s", url, "many", "x", "--count", "3", "--interval", "0.01")
        assert published.text == "Published 3 messages to many (1 byte each)\n"
        assert sub.process.wait(SECONDS) == 0
        assert sub.text == "[1] many: x\n[2] many: x\n[3] many: x\n"


def test_an_interrupted_pub_says_how_far_it_came(url: str) -> None:
    with started("sub", "-s", url, "slowly", "-n", "1", ready="subscribed") as sub:
        arguments = ("pub", "-s", url, "slowly", "x", "--count", "1000", "--interval", "60")
        pub = subprocess.Popen([*COMMAND, *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            assert sub.process.wait(SECONDS) == 0
            pub.send_signal(signal.SIGINT)
            _, errors = pub.communicate(timeout=SECONDS)
        finally:
            pub.kill()
        assert (pub.returncode, errors) == (130, b"headrace: interrupted after 1 of 1,000 messages\n")


def test_sub_ends_when_nothing_comes(url: str) -> None:
    quiet = run("sub", "-s", url, "quiet", "--timeout", "0.2")
    assert quiet.code == 0
    assert quiet.errors.endswith("headrace: 0 messages received\n")
    short = run("sub", "-s", url, "quiet", "--timeout", "0.2", "--count", "2")
    assert short.code == 1
    assert short.errors.endswith("headrace: no message for 0.2 s: 0 of 2 messages received\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_sub_ends_well_when_it_is_asked_to(url: str, number: signal.Signals) -> None:
    with started("sub", "-s", url, "x", "-n", "5", ready="subscribed") as sub:
        assert sub.end(number) == 0
        assert sub.errors.endswith("headrace: 0 messages received\n")


def test_sub_ends_quietly_when_nobody_reads_it_any_more(url: str) -> None:
    """As in `headrace sub x | head -1`: it ends when the reader is gone, without another message."""
    sub = subprocess.Popen(
        [*COMMAND, "sub", "-s", url, "pipe"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    try:
        assert sub.stdout is not None
        assert sub.stderr is not None
        assert b"subscribed" in sub.stderr.readline()
        run("pub", "-s", url, "pipe", "first")
        assert sub.stdout.readline() == b"[1] pipe: first\n"
        sub.stdout.close()
        assert sub.wait(SECONDS) == 0
        assert sub.stderr.read() == b"headrace: 1 message received\n"
    finally:
        sub.kill()
        sub.wait()
        sub.stderr.close()


def test_the_server_can_come_from_the_environment(url: str) -> None:
    assert run("pub", "x", "y", NATS_URL=url).code == 0


def test_the_next_server_is_used_when_one_is_not_there(url: str) -> None:
    result = run("pub", "-s", f"nats://127.0.0.1:1,{url}", "x", "y")
    assert (result.code, result.errors) == (0, "")


def test_data_that_starts_with_a_dash_goes_behind_two(url: str) -> None:
    with started("sub", "-s", url, "dash", "--raw", "-n", "1", ready="subscribed") as sub:
        assert run("pub", "-s", url, "dash", "--", "-5").code == 0
        assert sub.process.wait(SECONDS) == 0
        assert sub.output == b"-5"


def test_undecodable_arguments_are_sent_as_they_are(url: str) -> None:
    with started("sub", "-s", url, "latin", "--raw", "-n", "1", ready="subscribed") as sub:
        assert run("pub", "-s", url, "latin", os.fsdecode(b"\xe9t\xe9")).code == 0
        assert sub.process.wait(SECONDS) == 0
        assert sub.output == b"\xe9t\xe9"
