"""A server that is away for a moment is waited for; what is wrong for good is told at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.client.errors import ApiError, ConnectionFailed, NoResponders, RequestTimeout, StreamNotFound
from headrace.client.refusals import Refused, UnknownHost
from headrace.errors import HeadraceError
from headrace.spark import patience
from headrace.spark.connection import Server
from headrace.spark.failure import DataSourceError
from headrace.spark.options import Use, read_options
from headrace.spark.patience import Contact, may_pass
from headrace.spark.reading.batch_reader import BatchReader
from headrace.spark.reading.stream_reader import StreamReader
from headrace.spark.start import came_too_late, start_query
from tests.servers import running_server
from tests.spark.conftest import Broker
from tests.spark.test_exactly_once import Restartable, check_exactly_once, copied, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Notices(list[str]):
    """What was said, and a way to wait for it."""

    def __init__(self) -> None:
        self.waiting = threading.Event()

    def __call__(self, text: str) -> None:
        self.append(text)
        self.waiting.set()


@pytest.fixture
def notices(monkeypatch: pytest.MonkeyPatch) -> Notices:
    said = Notices()
    monkeypatch.setattr(patience, "notice", said)
    return said


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Restartable]:
    restartable = Restartable("headrace", tmp_path / "store")
    yield restartable
    restartable.close()


Ask = Callable[..., StreamReader]


@pytest.fixture
def ask() -> Iterator[Ask]:
    """Makes readers, each as new as that of another process; they are stopped at the end."""
    made: list[StreamReader] = []

    def make(url: str, **options: str) -> StreamReader:
        given = {"servers": url, "stream": "SOURCE", "startingOffsets": "earliest"} | options
        made.append(StreamReader(read_options(given, Use.STREAM)))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


def while_away(server: Restartable, notices: Notices, work: Callable[[], Any]) -> Any:
    """The result of what is begun while the server is away, and waits for it."""
    server.kill()
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(work)
        assert notices.waiting.wait(30), result.exception(0)
        server.start_again()
        return result.result(50)


@pytest.mark.parametrize("connected", [True, False])
def test_planning_waits_for_a_server_that_is_restarted(
    server: Restartable, notices: Notices, ask: Ask, connected: bool
) -> None:
    fill(server.url, 3)
    reader = ask(server.url)
    begin = reader.latestOffset({}, ReadAllAvailable())
    time.sleep(0.2)  # longer than an answer is kept
    planner = reader if connected else ask(server.url)
    end = while_away(server, notices, lambda: planner.latestOffset(begin, ReadAllAvailable()))
    assert end == begin
    assert "no server listens" in notices[0]
    assert "waiting up to 120 s (nats.reconnectTimeout)" in notices[0]
    assert notices[1].startswith("the server answers again after")
    assert len(notices) == 2


def test_a_batch_that_is_planned_waits_for_its_partitions(
    server: Restartable, notices: Notices, ask: Ask
) -> None:
    fill(server.url, 3)
    reader = ask(server.url)
    end = reader.latestOffset({}, ReadAllAvailable())
    partitions = while_away(server, notices, lambda: ask(server.url).partitions({}, end))
    assert [(partition.first, partition.last) for partition in partitions] == [(1, 3)]


def test_a_task_waits_with_its_first_connection(server: Restartable, notices: Notices, ask: Ask) -> None:
    fill(server.url, 3)
    reader = ask(server.url)
    (partition,) = reader.partitions({}, reader.latestOffset({}, ReadAllAvailable()))
    batches = while_away(server, notices, lambda: list(ask(server.url).read(partition)))
    assert sum(batch.num_rows for batch in batches) == 3


def test_a_task_of_the_sink_waits_with_its_first_connection(server: Restartable, notices: Notices) -> None:
    sink = Server(read_options({"servers": server.url, "stream": "S"}, Use.READ).connection, Contact.ASSUMED)
    assert while_away(server, notices, lambda: sink.ask(lambda client: client.stream_names())) == []
    sink.close()


def test_patience_ends(server: Restartable, notices: Notices, ask: Ask) -> None:
    fill(server.url, 3)
    impatient = {"nats.reconnectTimeout": "0.5"}
    begin = ask(server.url, **impatient).latestOffset({}, ReadAllAvailable())
    server.kill()
    with pytest.raises(DataSourceError, match="no server listens"):
        ask(server.url, **impatient).latestOffset(begin, ReadAllAvailable())
    assert len(notices) == 1
    server.start_again()


@pytest.mark.parametrize("url", ["nats://127.0.0.1:1", "nats://no.such.host.invalid:4222"])
def test_an_address_that_is_wrong_is_told_at_once(url: str, notices: Notices, ask: Ask) -> None:
    with pytest.raises(DataSourceError):
        ask(url).latestOffset({}, ReadAllAvailable())
    with pytest.raises(DataSourceError):
        BatchReader(read_options({"servers": url, "stream": "S"}, Use.BATCH)).partitions()
    assert notices == []


def test_a_wrong_password_is_told_at_once_even_to_a_running_query(notices: Notices, ask: Ask) -> None:
    config = "authorization { user: anna, password: right }"
    with running_server("nats-server", config) as server:
        url = f"nats://{server.host}:{server.port}"
        wrong = {"nats.user": "anna", "nats.password": "wrong"}
        old = {"SOURCE": {"base": 1, "next": 5, "parts": 1, "created": 9}}
        for start in {}, old:
            with pytest.raises(DataSourceError, match="does not accept these credentials"):
                ask(url, **wrong).latestOffset(start, ReadAllAvailable())
    assert notices == []


def test_a_stream_that_does_not_exist_is_told_at_once(broker: Broker, notices: Notices, ask: Ask) -> None:
    with pytest.raises(DataSourceError, match="there is no such stream"):
        ask(broker.url, stream="NONE").latestOffset({}, ReadAllAvailable())
    assert notices == []


def refusal_of(code: int) -> ApiError:
    return ApiError("no", code=code, err_code=1, description="no")


NOT_FOUND = StreamNotFound("none", code=404, err_code=10059, description="none")


@pytest.mark.parametrize(
    ("error", "contacts"),
    [
        (Refused("no"), []),
        (NOT_FOUND, []),
        (refusal_of(400), []),
        (refusal_of(503), [Contact.NONE, Contact.ASSUMED, Contact.MADE]),
        (RequestTimeout("late"), [Contact.NONE, Contact.ASSUMED, Contact.MADE]),
        (ConnectionFailed("gone"), [Contact.ASSUMED, Contact.MADE]),
        (UnknownHost("who"), [Contact.MADE]),
        (NoResponders("none"), [Contact.MADE]),
    ],
)
def test_what_may_pass(error: HeadraceError, contacts: list[Contact]) -> None:
    assert [contact for contact in Contact if may_pass(error, contact)] == contacts


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_busy_query_survives_a_long_outage(
    spark: SparkSession, server: Restartable, tmp_path: Path
) -> None:
    """With tasks and planning under way in each of many small batches, wherever it hits."""
    count = 4000
    fill(server.url, count)
    rows = spark.readStream.format("nats").options(servers=server.url, stream="SOURCE")
    rows = rows.options(startingOffsets="earliest", maxOffsetsPerTrigger=100, minPartitions=2)
    writer = rows.load().writeStream.format("nats").options(servers=server.url, subject="TARGET.copy")
    query = start_query(writer.option("checkpointLocation", str(tmp_path / "state")))
    try:
        for enough in 1, count // 2, count:
            while copied(server.url) < enough:
                if came_too_late(query):  # a busy machine, which is not what this is about
                    query = start_query(writer)
                assert query.isActive, query.exception()
                time.sleep(0.05)
            if enough < count:
                server.kill()
                time.sleep(45)
                server.start_again()
    finally:
        query.stop()
    check_exactly_once(server, count)
