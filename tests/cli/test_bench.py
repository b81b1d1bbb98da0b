"""`headrace bench` as a process, against headrace and nats-server: workloads, outputs, errors."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import COMMAND, SECONDS, assert_one_error_line, environment, run, started
from tests.cli.conftest import KINDS
from tests.cli.more.conftest import Broker
from tests.cli.screens import read_terminal
from tests.servers import running_server

RATE = r"[\d,]+ msgs/sec ~ [\d.]+ [KMG]?B/sec"
SPREAD = r"min [\d,]+ \| avg [\d,]+ \| max [\d,]+ \| stddev [\d,]+ msgs"


def bench_json(*arguments: str) -> dict[str, Any]:
    result = run("bench", *arguments, "--json")
    assert result.code == 0, result.errors
    document: dict[str, Any] = json.loads(result.text)
    return document


def counts(document: dict[str, Any], role: str) -> list[int]:
    return [client["msg_count"] for client in document["clients"] if client["role"] == role]


def test_the_classic_report(url: str) -> None:
    result = run("bench", "--urls", url, "--num-pubs", "2", "--num-subs", "3", "--num-msgs", "10001")
    assert result.code == 0, result.errors
    lines = result.text.splitlines()
    assert re.fullmatch(f"NATS Pub/Sub stats: {RATE}", lines[0])
    assert re.fullmatch(f" Pub stats: {RATE}", lines[1])
    assert re.fullmatch(rf"  \[1\] {RATE} \(5001 msgs\)", lines[2])
    assert re.fullmatch(rf"  \[2\] {RATE} \(5000 msgs\)", lines[3])
    assert re.fullmatch(f"  {SPREAD}", lines[4])
    assert re.fullmatch(f" Sub stats: {RATE}", lines[5])
    for number, line in enumerate(lines[6:9], 1):
        assert re.fullmatch(rf"  \[{number}\] {RATE} \(10001 msgs\)", line)
    assert re.fullmatch(f"  {SPREAD}", lines[9])
    assert re.search(r"^Generator: \d+% of a core", result.text, re.MULTILINE)
    assert "Server CPU" not in result.text
    assert result.errors == (
        f"pubsub: 10,001 messages of 128 bytes, 2 → 3, {url}\n"
    )  # a plain line, for stderr is no terminal


@pytest.mark.parametrize(
    "spelling", [["-np", "2", "-ns", "1", "-n", "50", "-ms", "7"], ["-np=2", "-ns=1", "-n=50", "-ms=7"]]
)
def test_the_classic_short_flags(url: str, spelling: list[str]) -> None:
    document = bench_json("-s", url, *spelling)
    assert (document["num_pubs"], document["num_subs"]) == (2, 1)
    assert (counts(document, "pub"), counts(document, "sub")) == ([25, 25], [50])
    assert document["msg_size"] == 7


def test_the_classic_defaults(url: str) -> None:
    document = bench_json("--urls", url)
    assert (document["num_pubs"], document["num_subs"], document["msg_size"]) == (1, 0, 128)
    assert counts(document, "pub") == [100_000]


def test_the_classic_csv(url: str, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    result = run("bench", "-s", url, "-np", "2", "-ns", "2", "-n", "1000", "--csv-file", str(path))
    assert result.code == 0, result.errors
    header = "RunID,ClientID,MsgCount,MsgBytes,MsgsPerSec,BytesPerSec,DurationSecs"
    assert path.read_text().splitlines()[0] == header
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [(row["ClientID"], row["MsgCount"], row["MsgBytes"]) for row in rows] == [
        ("S0", "1000", "128000"),
        ("S1", "1000", "128000"),
        ("P0", "500", "64000"),
        ("P1", "500", "64000"),
    ]
    assert len({row["RunID"] for row in rows}) == 1
    for row in rows:
        assert float(row["DurationSecs"]) > 0
        assert int(row["MsgsPerSec"]) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_started_server_is_measured_and_stopped(kind: str) -> None:
    document = bench_json("--start", kind, "-ns", "2", "-n", "20000")
    assert document["server"]["name"] == kind
    assert document["server_peak_rss_bytes"] > 1_000_000
    assert document["server_cpu_seconds"] >= 0
    assert document["generator_cpu_share"] > 0


def test_requests(url: str) -> None:
    document = bench_json("request", "-s", url, "-n", "500", "-np", "2", "--in-flight", "4")
    assert counts(document, "requester") == [250, 250]
    assert counts(document, "responder") == [500]
    assert 0 < document["latency_us"]["p50"] <= document["latency_us"]["max"]


def test_latency_at_a_fixed_rate(url: str) -> None:
    result = run("bench", "latency", "-s", url, "--rate", "1000", "--duration", "1.5")
    assert result.code == 0, result.errors
    assert re.search(r"^Latency in microseconds, since each message was due:$", result.text, re.MULTILINE)
    assert re.search(r"^ +p50 +p90 +p99 +p99.9 +p99.99 +max$", result.text, re.MULTILINE)
    for row in ("whole run", "0 s", "1 s"):
        assert re.search(rf"^  {row} +([\d,.]+ *){{6}}$", result.text, re.MULTILINE)
    assert "the generator itself was late" in result.text


def test_publishing_to_a_stream() -> None:
    flags = ["--start", "nats-server", "-n", "3001", "-np", "2", "--in-flight", "64", "--msg-ids"]
    result = run("bench", "stream-publish", *flags)
    assert result.code == 0, result.errors
    assert re.search(r"^Pub stats: ", result.text, re.MULTILINE)
    assert re.search(rf"^ \[1\] {RATE} \(1501 msgs\)$", result.text, re.MULTILINE)
    assert "Latency in microseconds, until each acknowledgement:" in result.text
    assert re.search(r"^Streams in a temporary directory on \w+$", result.text, re.MULTILINE)
    assert result.errors == (
        "stream-publish: 3,001 messages of 128 bytes, 2 → 0, file storage, 64 in flight, message ids,"
        " nats-server\n"
    )


@pytest.mark.parametrize(("shared", "received"), [([], [3000, 3000]), (["--shared"], None)])
def test_consuming_from_a_stream(shared: list[str], received: list[int] | None) -> None:
    document = bench_json(
        "stream-consume", "--start", "nats-server", "-n", "3000", "-ns", "2", "--batch", "100", *shared
    )
    assert received is None or counts(document, "sub") == received
    assert sum(counts(document, "sub")) == (3000 if shared else 6000)
    assert document["latency_us"]["p50"] > 0
    assert document["variant"].startswith("file storage, batches of 100, explicit acks")


def test_a_server_without_streams_is_named(url: str) -> None:
    result = run("bench", "stream-publish", "-s", url, "-n", "10")
    assert result.code == 1
    assert re.search(r"^headrace: .*has no JetStream; start it with -js", result.errors, re.MULTILINE)


def test_a_server_can_be_given_a_configuration(tmp_path: Path) -> None:
    config = tmp_path / "small.conf"
    config.write_text("max_payload: 1000\n")
    flags = ["--server-config", str(config), "-n", "10"]
    assert run("bench", "--start", "nats-server", *flags).code == 0
    result = run("bench", "--start", "nats-server", *flags, "-ms", "1001")
    assert (result.code, "larger than the server accepts (1,000)" in result.errors) == (1, True)
    for wrong in (["--urls", "127.0.0.1:1"], ["--start", "nats-server", "--server-config", "nowhere"]):
        result = run("bench", *flags[:2], *wrong)
        assert result.code == 2


@pytest.mark.parametrize("wildcard", [">", "*", "none"])
def test_many_subjects_and_a_queue_group(url: str, wildcard: str) -> None:
    flags = ["-s", url, "-n", "3000", "--num-subjects", "50", "-ns", "2", "--wildcard", wildcard]
    assert counts(bench_json("subjects", *flags), "sub") == [3000, 3000]
    assert sum(counts(bench_json("subjects", *flags, "--queue", "q"), "sub")) == 3000


def test_idle_connections_of_a_started_server() -> None:
    result = run("bench", "connections", "--start", "nats-server", "--num-conns", "200")
    assert re.search(
        r"^200 idle connections in [\d.]+ seconds: [\d,]+ per second$", result.text, re.MULTILINE
    )
    assert re.search(r"^Memory of the server: [\d.]+ KB per connection", result.text, re.MULTILINE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_running_server_is_measured_by_its_process(kind: Any) -> None:
    with running_server(kind) as server:
        flags = ["-s", f"{server.host}:{server.port}", "--num-conns", "50"]
        assert bench_json("connections", *flags)["rss_per_connection"] is None
        document = bench_json("connections", *flags, "--pid", str(server.process.pid))
    assert document["rss_per_connection"] is not None
    assert document["server_peak_rss_bytes"] > 1_000_000


def test_several_processes(url: str) -> None:
    document = bench_json("-s", url, "-np", "2", "-ns", "3", "-n", "5000", "--processes", "2")
    assert (counts(document, "pub"), counts(document, "sub")) == ([2500, 2500], [5000] * 3)


@pytest.mark.parametrize("preset", ["rnats-1x10", "rnats-10x10", "beaver-100", "beaver-1000"])
def test_presets_are_compared_with_their_figures(url: str, preset: str) -> None:
    result = run("bench", "-s", url, "--preset", preset, "-n", "100")
    assert result.code == 0, result.errors
    assert re.search(rf"^Preset {preset}, sent and received per second", result.text, re.MULTILINE)
    assert re.search(
        rf"^  {preset.partition('-')[0]}: .* [\d,]+ +[\d,]+ +[\d,.]+ x$", result.text, re.MULTILINE
    )
    assert re.search(r"^  today: .* 100 +[\d,]+$", result.text, re.MULTILINE)


def test_runs_are_saved(url: str, tmp_path: Path) -> None:
    result = run("bench", "latency", "-s", url, "--duration", "0.2", "--save", str(tmp_path / "runs"))
    assert result.code == 0, result.errors
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert [name.partition("-")[0] for name in names] == ["clients", "slices"]


@pytest.mark.parametrize("credentials", ["anna:s3cret@", "anna:wrong@", "wrong@", ""])
@pytest.mark.parametrize("kind", KINDS)
def test_credentials_are_in_the_url(kind: Any, credentials: str) -> None:
    with running_server(kind, flags=["--user", "anna", "--pass", "s3cret"]) as server:
        result = run(
            "bench", "-s", f"nats://{credentials}{server.host}:{server.port}", "-n", "10", "-ns", "1"
        )
    if "s3cret" in credentials:
        assert result.code == 0, result.errors
        assert "s3cret" not in result.text + result.errors
    else:
        assert_one_error_line(result, "does not accept these credentials", "nats://user:password@host:port")


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_is_in_the_url(kind: Any) -> None:
    with running_server(kind, flags=["--auth", "s3cret"]) as server:
        assert run("bench", "-s", f"nats://s3cret@{server.host}:{server.port}", "-n", "10").code == 0


def test_no_server_is_one_line() -> None:
    result = run("bench", "-s", "127.0.0.1:1")
    assert_one_error_line(result, "no server listens at 127.0.0.1:1", "--start headrace")


def test_the_first_server_that_answers_is_measured(url: str) -> None:
    assert bench_json("-s", f"127.0.0.1:1,{url}", "-n", "10")["server"]["name"] == url


def test_messages_that_are_too_large_are_refused(url: str) -> None:
    result = run("bench", "-s", url, "-ms", "2000000")
    assert result.code == 1
    assert "messages of 2,000,000 bytes are larger than the server accepts (1,048,576)" in result.errors


@pytest.mark.parametrize("kind", KINDS)
def test_lost_messages_are_counted_and_fail_the_run(kind: Any) -> None:
    """The server stops in mid-run, so that nothing moves any more and its messages are missing."""
    with (
        running_server(kind, flags=["-m", "-1"]) as server,
        started(
            "bench",
            "-s",
            f"{server.host}:{server.port}",
            *("-ns", "1", "-n", "2000000000"),
            ready="2,000,000,000 messages",
        ) as bench,
    ):
        wait_for_messages(Broker(server).monitor)
        server.process.kill()
        assert bench.process.wait(SECONDS) == 1
        assert re.search(r"headrace: .*[\d,]+ of 2,000,000,000 messages are missing", bench.errors)
        assert bench.text == ""


def wait_for_messages(monitor: str) -> None:
    """Until the server has got some."""
    deadline = time.monotonic() + SECONDS
    while True:
        with urllib.request.urlopen(f"{monitor}/varz") as answer:
            if json.load(answer)["in_msgs"]:
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_interrupt_ends_the_run(url: str) -> None:
    with started("bench", "-s", url, "-ns", "1", "-n", "2000000000", ready="2,000,000,000") as bench:
        time.sleep(0.3)
        assert bench.end() == 130
        assert "Traceback" not in bench.errors


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["-np", "0"], "0 is not in the range"),
        (["-np", "many"], "'many' is not a valid integer"),
        (["-n", "-1"], "-1 is not in the range"),
        (["nothing"], "'nothing' is not one of 'pubsub'"),
        (["--preset", "nothing"], "'nothing' is not one of 'rnats-1x10'"),
        (["--preset", "rnats-1x10", "-ns", "5"], "--num-subs cannot be combined"),
        (["--pid", "999999999"], "process 999999999 does not exist"),
        (["--rate", "5"], "--rate is for latency"),
        (["latency", "--rate", "0"], "0.0 is not in the range"),
        (["--subject", "a b"], "contains a space"),
        (["--subject", "a.*"], "contains a wildcard"),
        (["subjects", "--queue", "a b"], "must be one word"),
        (["--start", "no-such-server"], "unknown server 'no-such-server'"),
        (["--start", "nats://127.0.0.1:4222"], "--start takes headrace, nats-server or a path"),
        (["--start", "headrace", "--urls", "127.0.0.1"], "either --urls or --start"),
        (["--start", "headrace", "--pid", "1"], "--pid is for a running server: use it with --urls"),
        (["--urls", "http://host"], "nats://"),
        (["--urls", "nats://host:x"], "host:port"),
        (["stream-publish", "--stream", "a.b"], "stream name 'a.b' must be one word"),
        (["stream-consume", "--acks", "some"], "'some' is not one of"),
        (["--batch", "5"], "--batch is for stream-consume, not for pubsub"),
        (["compare"], "Missing argument"),
        (["compare", "no-such-server"], "unknown server"),
        (["compare", "headrace", "--rows", "nothing"], "no such row: nothing"),
        (["compare", "headrace", "--rounds", "0"], "0 is not in the range"),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: list[str], part: str) -> None:
    result = run("bench", *arguments)
    assert_one_error_line(result, part, "(see `headrace bench", code=2)


def test_a_csv_file_that_cannot_be_written_is_one_line(url: str, tmp_path: Path) -> None:
    result = run("bench", "-s", url, "-n", "10", "--csv-file", str(tmp_path / "no" / "file"))
    assert_one_error_line(result, "cannot write", "No such file or directory", code=1)  # before the run
    result = run("bench", "-s", url, "-n", "10", "--csv-file", str(tmp_path))
    assert_one_error_line(result, "cannot write", "Is a directory", code=1)


def test_a_json_file_that_cannot_be_written_is_reported_before_the_rounds(tmp_path: Path) -> None:
    result = run("bench", "compare", "headrace", "--json", str(tmp_path / "no" / "file"))
    assert_one_error_line(result, "cannot write", "No such file or directory", code=1)


def test_a_run_that_fails_leaves_an_older_csv_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("older")
    assert run("bench", "-s", "127.0.0.1:1", "--csv-file", str(path)).code == 1
    assert path.read_text() == "older"


def test_a_configuration_is_part_of_the_servers_name(tmp_path: Path) -> None:
    path = tmp_path / "small.conf"
    path.write_text("max_payload: 1000\n")
    document = bench_json("--start", "nats-server", "--server-config", str(path), "-n", "10")
    assert document["server"]["name"] == "nats-server (small.conf)"


def test_compare_shows_medians_and_ratios(tmp_path: Path) -> None:
    path = tmp_path / "rounds.json"
    result = run(
        *("bench", "compare", "nats-server", "headrace", "--rows", "1-1,request-1,latency"),
        *("--rounds", "1", "--json", str(path)),
    )
    assert result.code == 0, result.errors
    assert "headrace / nats-server" in result.text
    assert re.search(r"^nats-server: \d+\.\d+\.\d+$", result.text, re.MULTILINE)
    assert re.search(r"^headrace: \d+\.\d+", result.text, re.MULTILINE)
    assert re.search(r"^1 → 1, 128 B +[\d.]+ .?/s \(", result.text, re.MULTILINE)
    assert [row["key"] for row in json.loads(path.read_text())["rows"]] == ["1-1", "request-1", "latency"]


def test_compare_takes_urls_and_shows_markdown(url: str) -> None:
    result = run("bench", "compare", url, url, "--rows", "1-1", "--rounds", "1", "--markdown")
    assert result.code == 0, result.errors
    assert f"| work | {url} | {url} (2) |" in result.text
    assert "| ? / ? s | ? / ? MB |" in result.text


def test_compare_fails_when_a_row_does() -> None:
    result = run("bench", "compare", "nats://127.0.0.1:1", "--rows", "1-1", "--rounds", "1")
    assert_one_error_line(result, "no server listens at 127.0.0.1:1")


def test_compare_cannot_tell_the_memory_of_a_url(url: str) -> None:
    result = run("bench", "compare", url, "--suite", "full", "--rows", "idle", "--rounds", "1")
    assert result.code == 1
    assert "FAILED, round 1: the memory of" in result.text


def test_a_terminal_gets_a_bar_that_disappears(url: str) -> None:
    """The bar is on stderr, the report on stdout: only stderr is a terminal here."""
    ours, theirs = pty.openpty()
    command = [*COMMAND, "bench", "latency", "-s", url, "--rate", "1000", "--duration", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment())
    output, _ = process.communicate(timeout=SECONDS)
    os.close(theirs)
    screen = read_terminal(ours)
    assert process.returncode == 0
    assert re.findall(r"\[(#*)\.*\] +(\d+)%", screen)[0] == ("", "0")
    assert len(re.findall(r"\[#+\.*\] +\d+%", screen)) >= 2
    assert screen.endswith("\r\033[K")
    assert output.startswith(b"NATS Pub/Sub stats")


def test_help_shows_the_command_without_its_inner_name() -> None:
    result = run("bench", "--help")
    assert result.text.startswith("Usage: headrace bench [OPTIONS] [WORKLOAD]\n")
