"""A server with streams for the data source, of each kind that we have; and what is in its streams."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nats
import pytest
from nats import connect
from nats.aio.client import Client as NatsClient
from nats.js.api import DeliverPolicy, StreamConfig

from headrace.spark.start import start_query
from tests.cluster import running_cluster
from tests.servers import Server, keep_streams_directory, running_server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEADER_SECONDS = 60.0

_numbers = itertools.count(1)


ONE_SERVER = pytest.mark.parametrize("broker", ["headrace"], indirect=True)
"""For what does not depend on the server."""


@dataclass(frozen=True)
class Message:
    subject: str
    data: bytes
    headers: dict[str, str]
    seq: int


class Broker:
    """The server as a test sees it: with nats-py, so that what we wrote is not read with what we wrote.

    Of a cluster it is the first server; the streams that it makes are replicated then. `store` is the storage
    directory of one of ours.
    """

    def __init__(self, *servers: Server, store: str = "") -> None:
        self.server = servers[0]
        self.store = store
        self.urls = [f"nats://{server.host}:{server.port}" for server in servers]
        self.url = ",".join(self.urls)

    def do(self, work: Callable[[NatsClient], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            connection = await connect(self.urls)
            try:
                return await work(connection)
            finally:
                await connection.close()

        return asyncio.run(run())

    def make_stream(self, subjects: Sequence[str] = (), *, name: str = "", **config: Any) -> str:
        """A new stream; by default with a name of its own and the subjects below it."""
        name = name or f"S{next(_numbers)}"
        config = {"name": name, "subjects": list(subjects) or [f"{name}.>"]} | config
        config.setdefault("num_replicas", len(self.urls))
        self.do(lambda connection: connection.jetstream(timeout=30).add_stream(StreamConfig(**config)))
        return name

    def wait_for_leader(self) -> None:
        """Until the servers of a cluster have found each other: then a stream can be made."""
        deadline = time.monotonic() + LEADER_SECONDS
        while True:
            try:
                self.delete_stream(self.make_stream())
            except nats.errors.Error:
                assert time.monotonic() < deadline, self.server.log()
                time.sleep(0.1)
            else:
                return

    def publish(self, subject: str, payloads: Sequence[str], headers: dict[str, str] | None = None) -> None:
        async def publish(connection: NatsClient) -> None:
            stream = connection.jetstream(timeout=30)
            for payload in payloads:
                await stream.publish(subject, payload.encode(), headers=headers)

        self.do(publish)

    def messages(self, stream: str) -> list[Message]:
        """All that is in a stream."""

        async def read(connection: NatsClient) -> list[Message]:
            context = connection.jetstream(timeout=30)
            state = (await context.stream_info(stream)).state
            found: list[Message] = []
            if not state.messages:
                return found
            source = await context.subscribe(
                "", stream=stream, ordered_consumer=True, deliver_policy=DeliverPolicy.ALL
            )
            while not found or found[-1].seq < state.last_seq:
                message = await source.next_msg(timeout=30)
                seq = message.metadata.sequence.stream
                found.append(Message(message.subject, message.data, dict(message.headers or {}), seq))
            return found

        result: list[Message] = self.do(read)
        return result

    def state(self, stream: str) -> Any:
        return self.do(lambda connection: connection.jetstream(timeout=30).stream_info(stream)).state

    def change_stream(self, stream: str, **changes: Any) -> None:
        async def change(connection: NatsClient) -> None:
            config = (await connection.jetstream(timeout=30).stream_info(stream)).config
            await connection.jetstream(timeout=30).update_stream(config.evolve(**changes))

        self.do(change)

    def purge(self, stream: str, **how: Any) -> None:
        self.do(lambda connection: connection.jetstream(timeout=30).purge_stream(stream, **how))

    def delete_stream(self, stream: str) -> None:
        self.do(lambda connection: connection.jetstream(timeout=30).delete_stream(stream))

    def delete_message(self, stream: str, seq: int) -> None:
        self.do(lambda connection: connection.jetstream(timeout=30).delete_msg(stream, seq))


NATS_SERVER = pytest.param("nats-server", marks=pytest.mark.slow)
CLUSTER = pytest.param("cluster", marks=pytest.mark.long)


@pytest.fixture(scope="session", params=["headrace", NATS_SERVER, CLUSTER])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Shared by all tests; each makes streams of its own."""
    store = tmp_path_factory.mktemp("streams")
    if request.param == "cluster":
        with running_cluster(store) as servers:
            cluster = Broker(*servers.values())
            cluster.wait_for_leader()
            yield cluster
    else:
        with running_server(request.param, flags=["-js", "-sd", str(store)]) as server:
            if request.param == "nats-server":
                keep_streams_directory(store)
            yield Broker(server, store=str(store) if request.param == "headrace" else "")


@dataclass(frozen=True)
class Nats:
    """Spark and a server: the data source as a test uses it."""

    spark: SparkSession
    broker: Broker
    directory: Path

    def read(self, stream: str, **options: object) -> DataFrame:
        reader = self.spark.read.format("nats").option("servers", self.broker.url)
        return reader.options(stream=stream, **{name: str(value) for name, value in options.items()}).load()

    def read_stream(self, stream: str, **options: object) -> DataFrame:
        reader = self.spark.readStream.format("nats").option("servers", self.broker.url)
        return reader.options(stream=stream, **{name: str(value) for name, value in options.items()}).load()

    def drain(self, rows: DataFrame, checkpoint: str = "checkpoint") -> list[list[Any]]:
        """Run an AvailableNow query over `rows`, and return the rows of each batch that had some."""
        batches: list[list[Any]] = []

        def keep(batch: DataFrame, number: int) -> None:
            found = batch.collect()
            if found:
                batches.append(found)

        writer = rows.writeStream.foreachBatch(keep).trigger(availableNow=True)
        start_query(writer.option("checkpointLocation", str(self.directory / checkpoint))).awaitTermination()
        return batches


@pytest.fixture
def on(spark: SparkSession, broker: Broker, tmp_path: Path) -> Iterator[Nats]:
    yield Nats(spark, broker, tmp_path)
    for query in spark.streams.active:
        with contextlib.suppress(Exception):
            query.stop()
