"""`headrace stream export` and `import`: what was there comes back, and broken files change nothing."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.client.api import parse_time
from headrace.client.arrays import SCHEMA
from tests.cli.commands import COMMAND, SECONDS, assert_one_error_line, environment
from tests.cli.jetstream import KINDS, document, done, invoke, jetstream_server, publish
from tests.servers import reserved_port, running_server

FORMATS = ("ndjson", "parquet")
MEBIBYTE = 1 << 20
Message = tuple[str, bytes, list[tuple[str, str]]]


@pytest.fixture(scope="module", params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with jetstream_server(request.param, tmp_path_factory.mktemp("store")) as server:
        yield server


class Place:
    """A server with a stream that stores `a.>`.

    `replace` gives it a new name: in nats-server 2.15.1, a stream that is removed and re-created at once may
    have its old messages back.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.name = ""
        self.replace()

    def replace(self, *options: str) -> None:
        """An empty stream."""
        if self.name:
            done(self.url, "stream", "rm", self.name, "-f")
        self.name = f"A{secrets.token_hex(4)}"
        done(self.url, "stream", "add", self.name, "--subjects", "a.>", *options)


@pytest.fixture
def place(url: str) -> Iterator[Place]:
    yield Place(url)
    for name in document(url, "stream", "ls", "--names", "--all"):
        done(url, "stream", "rm", name, "-f")


def contents(url: str, stream: str) -> list[tuple[str, bytes, list[tuple[str, str]]]]:
    """Its messages, without what an import adds."""
    return [
        (message["subject"], base64.b64decode(message.get("data", "")), stored_headers(message))
        for message in document(url, "stream", "view", stream)
    ]


def stored_headers(message: dict[str, Any]) -> list[tuple[str, str]]:
    lines = base64.b64decode(message.get("hdrs", "")).decode().split("\r\n")[1:]
    pairs = [tuple(line.split(": ", 1)) for line in lines if line]
    return [pair for pair in pairs if not pair[1].startswith("headrace-import:")]  # type: ignore[misc]


MESSAGES: list[Message] = [
    ("a.text", "grün 日本 \U0001f600 \x00 \u2028".encode(), []),
    ("a.empty", b"", []),
    ("a.binary", bytes(range(256)), [("Kind", "binary")]),
    ("a.headers", b"x", [("B", "2"), (place.name, "1"), ("B", "3"), ("Empty", ""), ("Text", "grün: a, b")]),
    ("a.id", b"y", [("First", "1"), ("Nats-Msg-Id", "its-own"), ("Last", "2")]),
    ("a.large", os.urandom(MEBIBYTE), []),  # no room for an id
    ("a.large", bytes(MEBIBYTE - 100), [("Key", "value")]),
    ("a.json", b'{"total": 1.50}', []),
    ("a.gone", b"z", []),
]


@pytest.mark.parametrize("form", FORMATS)
def test_what_was_exported_is_imported_as_it_was(place: Place, form: str, tmp_path: Path) -> None:
    path, again = str(tmp_path / f"a.{form}"), str(tmp_path / f"again.{form}")
    publish(place.url, place.name, [*MESSAGES[:3], ("a.gone", b"", []), *MESSAGES[3:]])
    done(
        place.url, "stream", "purge", place.name, "--subject", "a.gone", "-f"
    )  # gaps, one of them at the end
    before = contents(place.url, place.name)
    assert before == MESSAGES[:-1]
    assert "exported 8 messages" in done(place.url, "stream", "export", place.name, path).errors
    place.replace()
    assert "has 8 messages" in done(place.url, "stream", "import", path, place.name, "--dry-run").errors
    assert contents(place.url, place.name) == []
    assert "imported 8 messages" in done(place.url, "stream", "import", path, place.name).errors
    assert contents(place.url, place.name) == before
    repeated = done(place.url, "stream", "import", path, place.name)
    assert f"imported 0 messages into {place.name}; it had 8 messages" in repeated.errors
    assert contents(place.url, place.name) == before
    done(place.url, "stream", "export", place.name, again)
    assert [row[2:] for row in rows_of(again)] == [row[2:] for row in rows_of(path)]


def rows_of(path: str) -> list[tuple[Any, ...]]:
    """The rows of a file: sequence, time, then what a message is."""
    if path.endswith(".parquet"):
        return [
            (row["seq"], row["timestamp"], row["subject"], row["data"], row["headers"])
            for row in pq.read_table(path).to_pylist()
        ]
    lines = map(json.loads, Path(path).read_text().split("\n")[:-1])
    return [
        (
            line["seq"],
            line["time"],
            line["subject"],
            line.get("data"),
            line.get("data_base64"),
            line.get("headers"),
        )
        for line in lines
    ]


def test_both_formats_are_the_same_import(place: Place, tmp_path: Path) -> None:
    publish(place.url, place.name, MESSAGES)
    for form in FORMATS:
        done(place.url, "stream", "export", place.name, str(tmp_path / f"a.{form}"))
    place.replace()
    done(place.url, "stream", "import", str(tmp_path / "a.ndjson"), place.name)
    assert "imported 0" in done(place.url, "stream", "import", str(tmp_path / "a.parquet"), place.name).errors


def test_a_part_of_a_stream_is_exported(place: Place, tmp_path: Path) -> None:
    publish(place.url, place.name, [(f"a.{number % 3}", b"%d" % number, []) for number in range(1, 10)])
    times = [message["time"] for message in document(place.url, "stream", "view", place.name)]

    def exported(*options: str) -> list[int]:
        path = str(tmp_path / "part.ndjson")
        done(place.url, "stream", "export", place.name, path, "--force", *options)
        return [row[0] for row in rows_of(path)]

    assert exported() == list(range(1, 10))
    assert exported("--subject", "a.1", "--subject", "a.2") == [1, 2, 4, 5, 7, 8]
    assert exported("--subject", "a.*", "--id", "8") == [8, 9]
    moments = [parse_time(moment) for moment in times]  # as text, .12Z would come after .123Z
    assert exported("--since", times[6], "--until", times[8]) == [
        number for number in range(1, 10) if moments[6] <= moments[number - 1] < moments[8]
    ]
    assert exported("--until", "1h") == []
    assert exported("--id", "10") == []
    on_stdout = done(place.url, "stream", "export", place.name, "-", "--id", "9")
    assert json.loads(on_stdout.text)["data"] == "9"


def test_an_export_replaces_a_file_only_if_told_to(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_text("mine")
    assert_one_error_line(
        invoke(place.url, "stream", "export", place.name, str(path)), "exists already", "--force"
    )
    assert_one_error_line(invoke(place.url, "stream", "export", "NONE", str(path), "-f"), "no stream NONE")
    assert path.read_text() == "mine"
    assert_one_error_line(
        invoke(place.url, "stream", "export", place.name, str(tmp_path / "a.txt")), "--format"
    )
    assert_one_error_line(
        invoke(place.url, "stream", "export", place.name, str(tmp_path / "no" / "a.ndjson")), "cannot"
    )
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.ndjson"]


@pytest.mark.parametrize("form", FORMATS)
def test_a_work_queue_is_exported_and_keeps_its_messages(place: Place, form: str, tmp_path: Path) -> None:
    path = str(tmp_path / f"a.{form}")
    place.replace("--retention", "work")
    publish(place.url, place.name, MESSAGES)
    done(place.url, "stream", "export", place.name, path, "--subject", "a.*")
    assert document(place.url, "stream", "info", place.name)["state"]["messages"] == len(MESSAGES)
    place.replace()
    done(place.url, "stream", "import", path, place.name)
    assert contents(place.url, place.name) == MESSAGES


def test_lines_from_elsewhere_are_imported(place: Place, tmp_path: Path) -> None:
    """Such as those of `headrace sub --json`."""
    path = tmp_path / "lines.ndjson"
    lines: list[dict[str, Any]] = [
        {"subject": "a.1", "reply": None, "headers": {}, "size": 2, "data": "hi"},
        {"subject": "a.1", "headers": {"K": "v", "L": ["1", "2"]}},
        {"subject": "a.1", "data": "hi"},
    ]
    path.write_text("\n\n".join(map(json.dumps, lines)))
    for count in (3, 0):
        assert (
            f"imported {count} messages" in done(place.url, "stream", "import", str(path), place.name).errors
        )
    assert contents(place.url, place.name) == [
        ("a.1", b"hi", []),
        ("a.1", b"", [("K", "v"), ("L", "1"), ("L", "2")]),
        ("a.1", b"hi", []),
    ]


BAD_LINES = [
    ('{"subject": "$JS.API.STREAM.DELETE.A", "data": ""}', "does not store the subject"),
    ('{"subject": "b.1"}', "does not store the subject"),
    ('{"subject": "a.*"}', "wildcard"),
    ('{"subject": "a.b c"}', "space"),
    ('{"subject": "a..b"}', "empty token"),
    ('{"subject": "a.1\\r\\nPUB x 0\\r\\n\\r\\n"}', "space or a control character"),
    ('{"subject": ""}', "does not store"),
    ('{"data": "x"}', "subject"),
    ('{"subject": 5}', "subject"),
    ('{"subject": "a.1", "headers": {"a": 5}}', "headers"),
    ('{"subject": "a.1", "headers": {"a\\nb": "c"}}', "line break"),
    ('{"subject": "a.1", "headers": [["a", "b\\r\\nc: d"]]}', "line break"),
    ('{"subject": "a.1", "headers": [["", "b"]]}', "no key"),
    ('{"subject": "a.1", "headers": [["a"]]}', "headers"),
    ('{"subject": "a.1", "data": "x", "data_base64": "eA=="}', "both"),
    ('{"subject": "a.1", "data_base64": "!!"}', "base64"),
    ('{"subject": "a.1", "seq": -1}', "sequence"),
    ('{"subject": "a.1", "seq": 99999999999999999999}', ""),
    ('{"subject": "a.1", "stream": "A\\r\\nB", "seq": 1}', "line break"),
    ('{"subject": "a.1", "data": "\\ud800"}', ""),
    ('{"subject": "a.1", "headers": {"a": "\\ud800"}}', ""),
    ('{"subject": "a.1"', ""),
    ("[]", ""),
    ("[" * 100_000, ""),
    ("\udcff", ""),
]


@pytest.mark.parametrize(("line", "reason"), BAD_LINES, ids=range(len(BAD_LINES)))
def test_a_bad_line_is_named_and_nothing_is_imported(
    place: Place, line: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.ndjson"
    good = '{"subject": "a.1", "data": "good"}\n'
    path.write_text(good + "\n" + line + "\n" + good, errors="surrogateescape")
    assert_one_error_line(
        invoke(place.url, "stream", "import", str(path), place.name), f"{path}: line 3: ", reason
    )
    assert contents(place.url, place.name) == []


def test_messages_that_are_too_large_are_named(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "large.ndjson"
    path.write_text(json.dumps({"subject": "a.1", "data": "x" * (MEBIBYTE + 1)}))
    assert_one_error_line(
        invoke(place.url, "stream", "import", str(path), place.name), "line 1", "larger than"
    )
    path.write_bytes(b'{"subject": "a.1", "data": "' + b"x" * (8 * MEBIBYTE))
    assert_one_error_line(
        invoke(place.url, "stream", "import", str(path), place.name), "line 1", "longer than"
    )
    place.replace("--max-msg-size", "500")
    path.write_text('{"subject": "a.1"}\n' + json.dumps({"subject": "a.1", "data": "x" * 501}))
    refused = invoke(place.url, "stream", "import", str(path), place.name)
    assert_one_error_line(refused, "line 2", "message size exceeds maximum allowed")


def test_bad_parquet_files(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"

    def error_of(table: pa.Table) -> Any:
        pq.write_table(table, path)
        return invoke(place.url, "stream", "import", str(path), place.name)

    good = pa.table({"subject": ["a.1", "a.2"], "data": [b"x", b"y"]})
    assert_one_error_line(error_of(good.select(["data"])), "no column subject")
    assert_one_error_line(error_of(good.select(["subject"])), "no column data")
    assert_one_error_line(error_of(pa.table({"subject": [1], "data": [b""]})), "column subject", "int64")
    assert_one_error_line(error_of(pa.table({"subject": ["a.1", None], "data": [b"", b""]})), "row 2")
    assert_one_error_line(
        error_of(pa.table({"subject": ["a.1", "b.1"], "data": [b"", b""]})), "row 2: ", "b.1"
    )
    headers = pa.table({"subject": ["a.1"], "data": [b""], "headers": ["a: b"]})
    assert_one_error_line(error_of(headers), "column headers")
    row = {"subject": "a.1", "data": b"x", "headers": [{"key": "a", "value": None}]}
    assert_one_error_line(error_of(pa.Table.from_pylist([row])), "row 1", "header")
    whole = path.read_bytes()
    for damaged in (
        b"",
        b"junk",
        whole[:-20],
        whole[: len(whole) // 2] + bytes(8) + whole[len(whole) // 2 + 8 :],
    ):
        path.write_bytes(damaged)
        result = invoke(place.url, "stream", "import", str(path), place.name)
        assert_one_error_line(result, str(path))
    assert contents(place.url, place.name) == []
    pq.write_table(good, path)
    assert "imported 2 messages" in done(place.url, "stream", "import", str(path), place.name).errors


def test_other_errors_of_an_import(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_text('{"subject": "a.1"}')
    assert_one_error_line(invoke(place.url, "stream", "import", str(path), "NONE"), "no stream NONE")
    assert_one_error_line(invoke(place.url, "stream", "import", str(tmp_path), place.name), "--format")
    missing = invoke(place.url, "stream", "import", str(tmp_path / "none.ndjson"), place.name)
    assert_one_error_line(missing, "cannot read", "none.ndjson")
    missing = invoke(place.url, "stream", "import", str(tmp_path / "none.parquet"), place.name)
    assert_one_error_line(missing, "none.parquet")
    place.replace("--no-ack")
    assert_one_error_line(invoke(place.url, "stream", "import", str(path), place.name), "--ack")
    done(place.url, "stream", "add", "M", "--mirror", place.name)
    assert_one_error_line(invoke(place.url, "stream", "import", str(path), "M"), "mirror")


def test_messages_that_the_stream_takes_for_duplicates_are_counted(place: Place, tmp_path: Path) -> None:
    """An id can come twice in a stream that remembers ids for a shorter time than lies between them."""
    path = tmp_path / "a.ndjson"
    line = {"subject": "a.1", "stream": "X", "headers": {"Nats-Msg-Id": "same"}}
    path.write_text("\n".join(json.dumps({**line, "seq": seq, "data": str(seq)}) for seq in (1, 2)))
    result = done(place.url, "stream", "import", str(path), place.name)
    assert "imported 1 message into" in result.errors
    assert "1 message not stored, whose Nats-Msg-Id it has seen recently" in result.errors


def test_conditions_of_a_publish_are_not_imported(place: Place, tmp_path: Path) -> None:
    publish(place.url, place.name, [("a.1", b"x", [("Nats-Expected-Last-Sequence", "0"), ("K", "v")])])
    path = str(tmp_path / "a.ndjson")
    done(place.url, "stream", "export", place.name, path)
    place.replace()
    publish(place.url, place.name, [("a.0", b"before", [])])
    done(place.url, "stream", "import", path, place.name)
    assert contents(place.url, place.name)[1] == ("a.1", b"x", [("K", "v")])


def test_an_interrupted_import_is_repeated_without_duplicates_after_the_window(
    place: Place, tmp_path: Path
) -> None:
    """The duplicate window is as short as it can be: what was stored is recognized by the last messages."""
    path, part = tmp_path / "a.ndjson", tmp_path / "part.ndjson"
    publish(place.url, place.name, [(f"a.{number}", b"%d" % number, []) for number in range(3500)])
    done(place.url, "stream", "export", place.name, str(path))
    place.replace("--dupe-window", "100ms")
    part.write_text("".join(path.read_text().splitlines(keepends=True)[:2500]))
    done(place.url, "stream", "import", str(part), place.name)
    publish(place.url, place.name, [("a.last", b"", [])])
    done(place.url, "stream", "purge", place.name, "--subject", "a.last", "-f")
    time.sleep(0.3)  # the window has passed
    repeated = done(place.url, "stream", "import", str(path), place.name)
    assert f"imported 1,000 messages into {place.name}; it had 2,500 messages" in repeated.errors
    exported = done(place.url, "stream", "export", place.name, "-").text.splitlines()
    assert [json.loads(line)["data"] for line in exported] == [str(number) for number in range(3500)]


def test_an_import_that_is_killed_is_repeated(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    lines = [json.dumps({"stream": "X", "seq": 1 + number, "subject": "a.1", "data": str(number)})
             for number in range(20_000)]  # fmt: skip
    path.write_text("\n".join(lines))
    process = subprocess.Popen(
        [*COMMAND, "stream", "import", str(path), place.name, "-s", place.url],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    deadline = time.monotonic() + SECONDS
    while (
        not document(place.url, "stream", "info", place.name)["state"]["messages"] and process.poll() is None
    ):
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGKILL)
    process.wait()
    done(place.url, "stream", "import", str(path), place.name)
    exported = done(place.url, "stream", "export", place.name, "-").text.splitlines()
    assert [json.loads(line)["data"] for line in exported] == [str(number) for number in range(20_000)]


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_port() as port:
        yield port


@pytest.mark.long
def test_an_import_survives_a_server_that_is_killed_and_started_again(tmp_path: Path, port: int) -> None:
    path, store = tmp_path / "a.ndjson", tmp_path / "store"
    lines = [
        {"stream": "X", "seq": 1 + number, "subject": "a.1", "data": str(number)} for number in range(30_000)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    url, flags = f"nats://127.0.0.1:{port}", ["-p", str(port), "-js", "-sd", str(store)]
    with running_server("headrace", flags=flags) as server:
        done(url, "stream", "add", "A", "--subjects", "a.>")
        process = subprocess.Popen(
            [*COMMAND, "stream", "import", str(path), "A", "-s", url],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        while not document(url, "stream", "info", "A")["state"]["messages"]:
            assert process.poll() is None
        server.process.kill()
        server.process.wait()
    with running_server("headrace", flags=flags):
        _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, errors
        exported = done(url, "stream", "export", "A", "-").text.splitlines()
    assert [json.loads(line)["data"] for line in exported] == [line["data"] for line in lines]


def test_ndjson_needs_no_pyarrow(place: Place, tmp_path: Path) -> None:
    publish(place.url, place.name, MESSAGES[:3])
    path = str(tmp_path / "a.ndjson")
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from headrace.cli.command import run\n"
        f"assert run(['stream', 'export', {place.name!r}, {path!r}, '-s', {place.url!r}]) == 0\n"
        f"assert run(['stream', 'import', {path!r}, {place.name!r}, '-s', {place.url!r}]) == 0\n"
        f"sys.exit(run(['stream', 'export', {place.name!r}, 'a.parquet', '-s', {place.url!r}]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment())
    assert ended.returncode == 1
    assert b"Parquet needs pyarrow" in ended.stderr.splitlines()[-1]
    assert contents(place.url, place.name) == MESSAGES[:3] * 2


TOKENS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Z"], exclude_characters=".*>\ufffd"),
                 min_size=1, max_size=8)  # fmt: skip
KEYS = st.text("abcXYZ-_09", min_size=1, max_size=8)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\ufffd")).map(
    lambda text: text.strip(" \t")
)
GENERATED = st.lists(
    st.tuples(TOKENS, st.binary(max_size=200) | st.text(max_size=50).map(str.encode),
              st.lists(st.tuples(KEYS, VALUES), max_size=4)),
    max_size=6,
)  # fmt: skip


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=GENERATED, form=st.sampled_from(FORMATS))
def test_any_messages_come_back(place: Place, messages: list[Message], form: str, tmp_path: Path) -> None:
    path = str(tmp_path / f"any.{form}")
    place.replace()
    stored: list[Message] = [(f"a.{token}", data, headers) for token, data, headers in messages]
    publish(place.url, place.name, stored)
    done(place.url, "stream", "export", place.name, path, "--force")
    place.replace()
    done(place.url, "stream", "import", path, place.name)
    assert contents(place.url, place.name) == stored


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk=st.binary(max_size=200) | st.text(max_size=100).map(str.encode), form=st.sampled_from(FORMATS))
def test_junk_is_never_imported(place: Place, junk: bytes, form: str, tmp_path: Path) -> None:
    path = tmp_path / f"junk.{form}"
    path.write_bytes(junk)
    result = invoke(place.url, "stream", "import", str(path), place.name)
    assert result.code == (0 if form == "ndjson" and not junk.strip() else 1)
    assert "this is a bug" not in result.errors
    assert result.errors.count("\n") == 1


def test_the_columns_of_a_file_are_those_of_the_client(place: Place, tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    publish(place.url, place.name, MESSAGES[:3])
    done(place.url, "stream", "export", place.name, path)
    assert pq.read_schema(path).equals(SCHEMA)
