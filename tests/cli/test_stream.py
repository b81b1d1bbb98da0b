"""`headrace stream` against headrace and nats-server: the same commands give the same results."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client import Client
from tests.cli.commands import COMMAND, assert_one_error_line, environment
from tests.cli.jetstream import KINDS, comparable, document, done, invoke, jetstream_server, publish, steady
from tests.servers import running_server

Urls = dict[str, str]

EVERYTHING = [
    *(
        "--subjects",
        "all.a,all.b",
        "--subjects",
        "all.c.>",
        "--description",
        "Everything",
        "--storage",
        "file",
    ),
    *("--compression", "s2", "--replicas", "1", "--no-ack", "--retention", "interest", "--discard", "new"),
    *("--discard-per-subject", "--first-sequence", "100", "--max-age", "1h30m", "--max-bytes", "64MB"),
    *("--max-consumers", "7", "--max-msg-size", "10KiB", "--max-msgs", "1000", "--max-msgs-per-subject", "5"),
    *("--dupe-window", "30s", "--allow-rollup", "--deny-delete", "--no-allow-direct"),
    *("--allow-msg-ttl", "--subject-del-markers-ttl", "1h", "--transform-source", "all.a"),
    *("--transform-destination", "all.renamed", "--metadata", "team=shop", "--metadata", "a=b=c"),
    *("--republish-source", "all.>", "--republish-destination", "again.>", "--republish-headers"),
    *("--limit-consumer-inactive", "1h", "--limit-consumer-max-pending", "50", "--defaults"),
]


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Urls]:
    with (
        jetstream_server("headrace", tmp_path_factory.mktemp("ours")) as ours,
        jetstream_server("nats-server", tmp_path_factory.mktemp("theirs")) as theirs,
    ):
        yield {"headrace": ours, "nats-server": theirs}


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, urls: Urls) -> Iterator[str]:
    """A server without streams."""
    server = urls[request.param]
    yield server
    for name in document(server, "stream", "ls", "--names", "--all"):
        done(server, "stream", "rm", name, "--force")


def add_orders(url: str) -> None:
    """In memory: in nats-server 2.15.1, files of a stream that was just removed may come back."""
    config = ("--subjects", "orders.>", "--description", "All orders", "--storage", "memory")
    done(url, "stream", "add", "ORDERS", *config)
    publish(
        url,
        "ORDERS",
        [
            ("orders.eu.1", b"hello", []),
            ("orders.eu.2", b'{"total": 5}', [("Region", "eu"), ("Nats-Msg-Id", "7")]),
            ("orders.us.1", b"two\nlines", []),
            ("orders.us.2", b"\xff\x00\x1b[31m", []),
        ],
    )


SESSION = [
    "stream ls",
    "stream add ORDERS --subjects orders.> --max-age 7d --max-bytes 1GB --metadata team=shop",
    "stream add JOBS --subjects jobs --retention work --discard new --max-msgs 10",
    "stream add KV_config --subjects $KV.config.>",
    "stream add MIRROR --mirror ORDERS",
    'stream add SOME --source {"name":"ORDERS","filter_subject":"orders.eu"} --source KV_config',
    "stream ls --names",
    "stream ls --all --names",
    "stream ls --subject orders.* --names",
    "stream ls",
    "stream info ORDERS",
    "stream info MIRROR",
    "stream info SOME",
    "stream edit ORDERS --max-age 1d --subjects orders.eu,orders.us --deny-purge --force",
    "stream edit ORDERS --max-age 1d --force",
    "stream edit ORDERS --max-age 2d --dry-run",
    "stream edit ORDERS --max-age 2d",
    "stream edit ORDERS --retention work --force",
    "stream purge ORDERS --force",
    "stream copy ORDERS COPY",
    "stream copy ORDERS COPY --subjects copies --no-deny-purge",
    "stream copy ORDERS ORDERS",
    "stream purge COPY --force",
    "stream purge COPY",
    "stream add ORDERS --subjects other",
    "stream add OTHER --subjects orders.eu",
    "stream add OTHER --subjects a --replicas 3",
    "stream get ORDERS 1",
    "stream get ORDERS --last-for orders.eu",
    "stream info ORDRES",
    "stream info NOTHING_LIKE_IT",
    "stream rm COPY",
    "stream rm COPY --force",
    "stream rm COPY --force",
    "stream edit MIRROR --no-mirror --subjects mirror --force",
    "stream ls --names",
]


def test_a_session_is_the_same_with_both_servers(urls: Urls) -> None:
    for line in SESSION:
        results = {kind: invoke(url, *line.split()) for kind, url in urls.items()}
        ours, theirs = results["headrace"], results["nats-server"]
        assert (ours.code, comparable(ours.text), comparable(ours.errors)) == (
            theirs.code,
            comparable(theirs.text),
            comparable(theirs.errors),
        ), line
        assert "this is a bug" not in ours.errors
    documents = {kind: steady(document(url, "stream", "ls", "--all")) for kind, url in urls.items()}
    assert documents["headrace"] == documents["nats-server"]
    for url in urls.values():
        for name in document(url, "stream", "ls", "--names", "--all"):
            done(url, "stream", "rm", name, "-f")


def test_every_option_reaches_the_configuration(urls: Urls, tmp_path: Path) -> None:
    saved = tmp_path / "all.json"
    made = {}
    for kind, url in urls.items():
        done(url, "stream", "add", "ALL", *EVERYTHING, "--output", str(saved))
        assert document(url, "stream", "ls", "--names") == []
        made[kind] = steady(document(url, "stream", "add", "ALL", *EVERYTHING)["config"])
        done(url, "stream", "add", "ALL", "--config", str(saved), "--validate")
        # The same again changes nothing, and the file of `info --json` is a configuration, too.
        saved.write_text(json.dumps(document(url, "stream", "info", "ALL")))
        assert "no differences" in done(url, "stream", "edit", "ALL", "--config", str(saved)).errors
        done(url, "stream", "rm", "ALL", "-f")
        again = document(url, "stream", "add", "--config", str(saved), "--description", "Again")["config"]
        assert steady(again) == {**made[kind], "description": "Again"}
        done(url, "stream", "rm", "ALL", "-f")
    assert made["headrace"] == made["nats-server"]
    assert made["headrace"] == {
        "name": "ALL",
        "description": "Everything",
        "subjects": ["all.a", "all.b", "all.c.>"],
        "retention": "interest",
        "max_consumers": 7,
        "max_msgs": 1000,
        "max_bytes": 64 << 20,
        "max_age": 5400 * 10**9,
        "max_msgs_per_subject": 5,
        "max_msg_size": 10240,
        "discard": "new",
        "discard_new_per_subject": True,
        "storage": "file",
        "num_replicas": 1,
        "no_ack": True,
        "duplicate_window": 30 * 10**9,
        "compression": "s2",
        "first_seq": 100,
        "subject_transform": {"src": "all.a", "dest": "all.renamed"},
        "republish": {"src": "all.>", "dest": "again.>", "headers_only": True},
        "allow_direct": False,
        "mirror_direct": False,
        "sealed": False,
        "deny_delete": True,
        "deny_purge": False,
        "allow_rollup_hdrs": True,
        "allow_msg_ttl": True,
        "subject_delete_marker_ttl": 3600 * 10**9,
        "consumer_limits": {"inactive_threshold": 3600 * 10**9, "max_ack_pending": 50},
        "metadata": {"team": "shop", "a": "b=c"},
    }


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("--allow-batch", "allow_atomic"),
        ("--allow-fast", "allow_batched"),
        ("--allow-counter", "allow_msg_counter"),
        ("--allow-schedules", "allow_msg_schedules"),
    ],
)
def test_kinds_of_publishing_are_options(url: str, option: str, field: str) -> None:
    assert (
        document(url, "stream", "add", "S", "--subjects", "s", "--storage", "memory", option)["config"][field]
        is True
    )


def test_commands_have_the_other_names_of_the_nats_tool(url: str) -> None:
    done(url, "stream", "create", "A", "--subjects", "a", "--storage", "memory")
    done(url, "stream", "cp", "A", "B", "--subjects", "b")
    done(url, "stream", "update", "B", "--max-msgs", "1", "--force")
    done(url, "consumer", "new", "B", "C")
    assert done(url, "consumer", "list", "B", "-n").text == "C\n"
    done(url, "consumer", "delete", "B", "C", "-f")
    done(url, "stream", "del", "B", "-f")
    assert done(url, "stream", "list", "--names").text == "A\n"
    assert_one_error_line(invoke(url, "stream", "crate", "A"), "No such command", code=2)


def test_more_streams_than_a_page_of_the_api_has(url: str) -> None:
    names = [f"S{number:03}" for number in range(300)]
    with Client.connect(url) as client:
        for name in names:
            config = {"name": name, "subjects": [name], "storage": "memory", "num_replicas": 1}
            client.request(f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode())
        assert document(url, "stream", "ls", "--names") == names
        assert done(url, "stream", "ls").text.count("\n") == 301
        for name in names:
            client.request(f"$JS.API.STREAM.DELETE.{name}")


def test_messages_are_shown(url: str) -> None:
    add_orders(url)
    shown = comparable(done(url, "stream", "view", "ORDERS").text)
    assert shown == (
        "[1] orders.eu.1 TIME (AGO)\n hello\n\n"
        '[2] orders.eu.2 TIME (AGO)\n Region: eu\n Nats-Msg-Id: 7\n\n {"total": 5}\n\n'
        "[3] orders.us.1 TIME (AGO)\n two\n lines\n\n"
        "[4] orders.us.2 TIME (AGO)\n 00000000 ff 00 1b 5b 33 31 6d ...[31m\n\n"
    )
    assert done(url, "stream", "view", "ORDERS", "--raw", "2").output == b'hello\n{"total": 5}\n'
    assert done(url, "stream", "view", "ORDERS", "--raw", "--last", "1").output == b"\xff\x00\x1b[31m\n"
    assert done(url, "stream", "view", "ORDERS", "--raw", "--id", "3", "1").output == b"two\nlines\n"
    in_europe = done(url, "stream", "view", "ORDERS", "--subject", "orders.eu.*", "--last", "1", "--raw")
    assert in_europe.output == b'{"total": 5}\n'
    assert done(url, "stream", "view", "ORDERS", "--since", "1h", "--raw", "1").output == b"hello\n"
    assert done(url, "stream", "view", "ORDERS", "--since", "2999-01-01T00:00:00Z").output == b""
    assert [message["seq"] for message in document(url, "stream", "view", "ORDERS")] == [1, 2, 3, 4]
    second = document(url, "stream", "view", "ORDERS", "--id", "2", "1")[0]
    after_first = done(url, "stream", "view", "ORDERS", "--since", second["time"], "--raw", "1").output
    assert after_first == b'{"total": 5}\n'


def test_one_message_is_shown(url: str) -> None:
    add_orders(url)
    assert done(url, "stream", "get", "ORDERS", "3", "--raw").output == b"two\nlines"
    assert done(url, "stream", "get", "ORDERS", "-S", "orders.*.2", "--raw").output == b"\xff\x00\x1b[31m"
    got = document(url, "stream", "get", "ORDERS", "2")
    assert (got["seq"], got["subject"], got["data"]) == (2, "orders.eu.2", "eyJ0b3RhbCI6IDV9")
    done(url, "stream", "purge", "ORDERS", "--subject", "orders.eu.2", "-f")
    assert_one_error_line(invoke(url, "stream", "get", "ORDERS", "2"), "message 2", "was deleted")
    assert_one_error_line(invoke(url, "stream", "get", "ORDERS", "5"), "no message 5", "1 to 4")
    assert_one_error_line(invoke(url, "stream", "get", "ORDERS", "--last-for", "x"), "no message of x")


def test_a_work_queue_is_looked_into_without_taking_anything(url: str) -> None:
    done(url, "stream", "add", "JOBS", "--subjects", "jobs", "--retention", "work", "--storage", "m")
    done(url, "consumer", "add", "JOBS", "WORKER")
    publish(url, "JOBS", [("jobs", b"1", []), ("jobs", b"2", [])])
    for _ in range(2):
        assert done(url, "stream", "view", "JOBS", "--raw").output == b"1\n2\n"
    assert document(url, "stream", "info", "JOBS")["state"]["messages"] == 2


def test_purges(url: str) -> None:
    add_orders(url)
    assert document(url, "stream", "purge", "ORDERS", "--subject", "orders.eu.>", "-f")["purged"] == 2
    assert document(url, "stream", "purge", "ORDERS", "--keep", "1", "-f")["purged"] == 1
    assert document(url, "stream", "purge", "ORDERS", "--seq", "4", "-f")["purged"] == 0
    assert document(url, "stream", "purge", "ORDERS", "-f")["purged"] == 1
    assert document(url, "stream", "info", "ORDERS", "--state")["messages"] == 0


def test_a_copy_has_the_same_messages_with_the_same_sequences_and_times(url: str) -> None:
    add_orders(url)
    done(url, "stream", "purge", "ORDERS", "--subject", "orders.eu.1", "-f")
    done(url, "stream", "purge", "ORDERS", "--subject", "orders.us.2", "-f")  # the last one
    copied = document(url, "stream", "copy", "ORDERS", "COPY", "--messages")
    assert copied["config"]["subjects"] == ["COPY"]
    assert "mirror" not in copied["config"]
    assert copied["config"]["description"] == "All orders"
    assert document(url, "stream", "view", "COPY") == document(url, "stream", "view", "ORDERS")
    publish(url, "COPY", [("COPY", b"new", [])])
    empty = document(url, "stream", "copy", "COPY", "EMPTY", "--subjects", "empty.*")
    assert empty["state"]["messages"] == 0


def test_questions_need_an_answer(url: str) -> None:
    add_orders(url)
    for command in (["rm", "ORDERS"], ["purge", "ORDERS"], ["edit", "ORDERS", "--max-msgs", "1"]):
        result = invoke(url, "stream", *command)
        assert result.code == 1
        assert "nobody to ask" in result.errors
        assert "--force" in result.errors
    assert document(url, "stream", "info", "ORDERS")["state"]["messages"] == 4


@pytest.mark.parametrize(
    "line",
    [
        "stream add",
        "stream add S",
        "stream add a.b --subjects x",
        "stream add S --subjects x --mirror Y",
        "stream add S --subjects x --max-age soon",
        "stream add S --subjects x --max-bytes 1.5G",
        "stream add S --subjects x --max-msg-size 3GB",
        "stream add S --subjects x --retention forever",
        "stream add S --subjects x --metadata novalue",
        "stream add S --subjects x --transform-source a",
        "stream add S --source {",
        'stream add S --source {"a":1}',
        "stream view S --id 1 --last 2",
        "stream view S --raw --json",
        "stream view S --subject a..b",
        "stream view S --since yesterday",
        "stream get S",
        "stream get S 1 --last-for x",
        "stream get S 0",
        "stream purge S --seq 1 --keep 1",
        "stream copy S S",
        "stream ls --subject a.>.b",
    ],
)
def test_wrong_command_lines(line: str) -> None:
    assert_one_error_line(invoke("nats://127.0.0.1:1", *line.split()), "--help", code=2)


def test_wrong_configuration_files(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    command = ("stream", "add", "S", "--validate", "--config", str(path))
    nowhere = "nats://127.0.0.1:1"
    assert_one_error_line(invoke(nowhere, *command), "cannot read")
    for text, part in [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"max_agee": 1}', "unknown field: max_agee"),
        ('{"max_age": "1h"}', "is not valid"),
    ]:
        path.write_text(text)
        assert_one_error_line(invoke(nowhere, *command), part)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_without_jetstream(kind: str) -> None:
    with running_server(kind) as server:  # type: ignore[arg-type]
        result = invoke(f"nats://{server.host}:{server.port}", "stream", "ls")
        assert_one_error_line(result, "no JetStream", "-js")


@pytest.mark.parametrize("kind", KINDS)
def test_a_user_without_permission(kind: str, tmp_path: Path) -> None:
    config = """
        authorization { users = [ {user: reader, password: x, permissions: {
            publish: ["$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST"], subscribe: "_INBOX.>"
        }}, {user: asker, password: x, permissions: {
            publish: "$JS.API.STREAM.MSG.GET.>", subscribe: "_INBOX.>"
        }} ] }"""
    with jetstream_server(kind, tmp_path, config) as url:  # type: ignore[arg-type]
        as_reader = ("--user", "reader", "--password", "x")
        assert invoke(url, "stream", "ls", *as_reader).code == 0
        unknown = invoke(url, "stream", "get", "ORDERS", "1", "--user", "asker", "--password", "x")
        assert_one_error_line(unknown, "there is no stream ORDERS; check its name")
        result = invoke(url, "stream", "info", "ORDERS", *as_reader)
        assert_one_error_line(result, "Permissions Violation", "$JS.API.STREAM.INFO.ORDERS", "use a user")


def test_a_terminal_gets_tables_that_fit_pages_and_questions(urls: Urls) -> None:
    url = urls["headrace"]
    add_orders(url)
    name = "A_STREAM_WITH_A_VERY_LONG_NAME_THAT_IS_LONGER_THAN_ANY_COLUMN"
    done(
        url, "stream", "add", name, "--subjects", "a.subject.that.is.long,another.one.>", "--metadata", "a=b"
    )
    for columns in (80, 200):
        lines = terminal(columns, "", "stream", "ls", "-s", url).splitlines()
        assert len(lines) == 3
        assert max(map(len, lines)) <= columns
        assert ("…" in lines[1]) == (columns == 80)
        assert ("Created" in lines[0]) == (columns == 200)
    assert max(map(len, terminal(60, "", "stream", "info", name, "-s", url).splitlines())) <= 60
    paged = terminal(80, "y\nn\n", "stream", "view", "ORDERS", "1", "-s", url)
    assert paged.count("Next page?") == 2
    assert "orders.eu.2" in paged
    assert "orders.us.1" not in paged
    assert "Really remove" in terminal(80, "n\n", "stream", "rm", name, "-s", url)
    assert len(document(url, "stream", "ls", "--names")) == 2
    assert "removed the stream" in terminal(80, "y\n", "stream", "rm", name, "-s", url)
    assert document(url, "stream", "ls", "--names") == ["ORDERS"]
    done(url, "stream", "rm", "ORDERS", "-f")


def terminal(columns: int, answers: str, *arguments: str) -> str:
    """What a command shows on a terminal of this width."""
    master, slave = pty.openpty()
    try:
        os.write(master, answers.encode())
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment(COLUMNS=str(columns), NO_COLOR="1"),
        )
        os.close(slave)
        shown = bytearray()
        try:
            while chunk := os.read(master, 65536):
                shown += chunk
        except OSError:  # the terminal is closed when the last process that has it ends
            pass
        process.wait()
        return shown.decode().replace("\r\n", "\n")
    finally:
        os.close(master)
