"""The classic figures against values computed by hand, and the report that shows them."""

from datetime import UTC, datetime

import pytest

from headrace.bench.classic import human_bytes, report
from headrace.bench.compare import Measurement
from headrace.bench.export import CSV_COLUMNS, client_rows
from headrace.bench.generator import Client
from headrace.bench.rates import Rate, rate_of, rate_together, spread_of
from headrace.bench.runs import Finished, Job
from headrace.bench.workloads import PublishSubscribe, Sample

CLIENTS = [
    Client("publisher", 600, 61_440, 0.0, 0.3),
    Client("publisher", 400, 40_960, 0.1, 0.5),
    Client("subscriber", 1000, 102_400, 0.25, 0.5),
    Client("subscriber", 1000, 102_400, 0.5, 1.0),
]
REPORT = """\
NATS Pub/Sub stats: 3,000 msgs/sec ~ 300.00 KB/sec
 Pub stats: 2,000 msgs/sec ~ 200.00 KB/sec
  [1] 2,000 msgs/sec ~ 200.00 KB/sec (600 msgs)
  [2] 1,000 msgs/sec ~ 100.00 KB/sec (400 msgs)
  min 1,000 | avg 1,500 | max 2,000 | stddev 500 msgs
 Sub stats: 2,667 msgs/sec ~ 266.67 KB/sec
  [1] 4,000 msgs/sec ~ 400.00 KB/sec (1000 msgs)
  [2] 2,000 msgs/sec ~ 200.00 KB/sec (1000 msgs)
  min 2,000 | avg 3,000 | max 4,000 | stddev 1,000 msgs

Server: headrace, version 1.0
Server CPU time: 0.75 seconds, peak memory: 30.5 MB
Generator: 95% of a core in 1.000 seconds
The generator was busy all the time: it may have been the limit, not the server.
Not a quiet machine: other processes kept 0.50 cores busy."""


def finished(preset: str = "", clients: list[Client] = CLIENTS) -> Finished:
    job = Job("pubsub", PublishSubscribe(2, 2, 100, 1000), "bench", 2, 2, 1000, 100, preset)
    measurement = Measurement(Sample(2000, 1.0, 0.95, clients), 0.75, 30_500_000, 0.5)
    return Finished("id", datetime(2026, 1, 2, tzinfo=UTC), job, "headrace", "1.0", measurement)


def test_a_client_has_the_rate_of_its_own_time() -> None:
    assert [rate_of(client).messages_per_second for client in CLIENTS] == pytest.approx(
        [2000, 1000, 4000, 2000]
    )
    assert rate_of(CLIENTS[3]).bytes_per_second == pytest.approx(204_800)


def test_what_came_at_once_is_measured_from_the_start_of_the_run() -> None:
    assert rate_of(Client("subscriber", 10, 0, 0.5, 0.5)) == Rate(10, 0, 0.5)
    assert rate_together([Client("subscriber", 10, 0, 0.5, 0.5)]) == Rate(10, 0, 0.5)


def test_a_side_is_not_faster_than_its_clients_together() -> None:
    """Each got everything in a single read, one right after the other."""
    clients = [Client("subscriber", 10, 0, 0.5, 0.5), Client("subscriber", 10, 0, 0.5001, 0.5001)]
    assert rate_together(clients) == Rate(20, 0, 0.5001)


def test_a_side_lasts_from_its_first_client_to_its_last() -> None:
    assert rate_together(CLIENTS[:2]) == Rate(1000, 102_400, 0.5)
    assert rate_together(CLIENTS[2:]) == Rate(2000, 204_800, 0.75)
    assert finished().total == Rate(3000, 307_200, 1.0)


def test_a_client_that_got_nothing_has_no_time() -> None:
    idle = Client("subscriber", 0, 0, 0.0, 0.0)
    assert rate_of(idle).messages_per_second == 0
    assert rate_together([*CLIENTS[2:], idle]) == rate_together(CLIENTS[2:])
    assert rate_together([idle]) == Rate(0, 0, 0.0)


def test_the_deviation_is_that_of_the_population() -> None:
    spread = spread_of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert (spread.lowest, spread.average, spread.highest, spread.deviation) == (2, 5, 9, 2)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0.00 B"),
        (1023, "1023.00 B"),
        (1024, "1.00 KB"),
        (1.5 * 1024**2, "1.50 MB"),
        (2**30, "1.00 GB"),
        (5 * 2**40, "5.00 TB"),
        (5000 * 2**40, "5000.00 TB"),
    ],
)
def test_bytes_for_people(count: float, text: str) -> None:
    assert human_bytes(count) == text


def test_the_report_has_the_classic_shape() -> None:
    assert report(finished()) == REPORT


def test_one_side_alone_needs_no_combined_line() -> None:
    assert report(finished(clients=CLIENTS[:2])).splitlines()[:2] == [
        "Pub stats: 2,000 msgs/sec ~ 200.00 KB/sec",
        " [1] 2,000 msgs/sec ~ 200.00 KB/sec (600 msgs)",
    ]


def test_a_preset_is_shown_next_to_the_published_figures() -> None:
    lines = report(finished("beaver-100")).splitlines()
    (theirs,) = [line.split() for line in lines if "hundred subscribers" in line]
    assert theirs == ["beaver:", "hundred", "subscribers", "100,000", "988,911", "0.0", "x"]
    assert lines[-1].split() == ["today:", "headrace", "1,000", "3,000"]
    assert "Intel Core i5-6400" in "".join(lines)


def test_clients_are_named_as_in_the_classic_csv() -> None:
    header = "RunID,ClientID,MsgCount,MsgBytes,MsgsPerSec,BytesPerSec,DurationSecs"
    assert ",".join(CSV_COLUMNS) == header
    assert [(row["client_id"], row["role"], row["msg_count"]) for row in client_rows(finished())] == [
        ("S0", "sub", 1000),
        ("S1", "sub", 1000),
        ("P0", "pub", 600),
        ("P1", "pub", 400),
    ]
