"""Streams of the real nats-server, published to and pulled from, and what must end a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.bench.failure import BenchError
from headrace.bench.jetstream import open_api, stream_facts
from headrace.bench.machine import filesystem_of
from headrace.bench.servers import Process, Server, running
from headrace.bench.workloads import KeyValueGets, KeyValuePuts, StreamConsume, StreamPublish
from headrace.bench.workloads.stream_publish import STREAM

STORAGES = ("file", "memory")
STAYS = "stays"


@pytest.fixture(scope="module")
def process(nats_server: Server) -> Iterator[Process]:
    """With a stream that stays: when nats-server deletes the last one, it removes the directory that they are
    all in, a moment later, and a stream that is created in this moment fails."""
    with running(nats_server, streams=True) as process:
        with open_api(process.address) as api:
            api.request(f"STREAM.CREATE.{STAYS}", {"name": STAYS, "subjects": [STAYS], "storage": "file"})
        yield process


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of a stream that no other test uses: nats-server may still be removing the files of a deleted one."""
    return re.sub(r"\W", "-", request.node.name)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("message_ids", [False, True])
@pytest.mark.parametrize(("publishers", "in_flight"), [(1, 1), (1, 500), (3, 64)])
def test_every_message_is_acknowledged(
    process: Process, publishers: int, in_flight: int, message_ids: bool, storage: str, name: str
) -> None:
    plan = StreamPublish(in_flight, 16, 1_000, publishers, storage, message_ids, stream=name)
    sample = plan.run(process.address, process.rss_bytes)
    assert [client.role for client in sample.clients] == ["publisher"] * publishers
    assert sum(client.messages for client in sample.clients) == 1_000
    assert sum(client.payload_bytes for client in sample.clients) == 16_000
    assert sample.value == pytest.approx(1_000 / sample.seconds)
    assert sample.latency is not None
    assert sample.latency.count == 1_000


@pytest.mark.parametrize("header", ["Nats-Expected-Last-Sequence", "Nats-Expected-Last-Subject-Sequence"])
def test_a_publisher_that_counts_is_never_refused(process: Process, header: str, name: str) -> None:
    plan = StreamPublish(64, 16, 1_000, expects=header, stream=name, keep=True)
    for _ in range(2):
        sample = plan.run(process.address, process.rss_bytes)
        assert sample.latency is not None
        assert sample.latency.count == 1_000
    with open_api(process.address) as api:
        api.request(f"STREAM.DELETE.{name}")


def test_two_publishers_that_count_are_refused(process: Process, name: str) -> None:
    plan = StreamPublish(64, 16, 1_000, 2, expects="Nats-Expected-Last-Sequence", stream=name)
    with pytest.raises(BenchError, match=r"messages were not stored: .*wrong last sequence"):
        plan.run(process.address, process.rss_bytes)


def test_all_keys_of_a_bucket_are_put_and_got(process: Process) -> None:
    puts = KeyValuePuts(64, 16, 1_000, keys=70).run(process.address, process.rss_bytes)
    gets = KeyValueGets(64, 16, 1_000, keys=70).run(process.address, process.rss_bytes)
    for sample in (puts, gets):
        assert sample.value == pytest.approx(1_000 / sample.seconds)
        assert sample.latency is not None
        assert sample.latency.count == 1_000


def test_a_key_without_a_value_is_noticed(process: Process) -> None:
    with KeyValueGets(8, 16, 100, keys=10).prepared(process.address) as ready:
        with open_api(process.address) as api:
            api.request("STREAM.PURGE.KV_bench", {"filter": "$KV.bench.key-000003"})
        with pytest.raises(BenchError, match=r"^10 of 100 gets had no value: NATS/1.0 404"):
            ready.run(process.address, process.rss_bytes)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("acks", ["explicit", "none"])
@pytest.mark.parametrize("batch", [1, 7, 5_000])
def test_every_consumer_gets_every_message(
    process: Process, batch: int, acks: str, storage: str, name: str
) -> None:
    plan = StreamConsume(batch, 16, 500, 2, acks, storage=storage, stream=name)
    sample = plan.run(process.address, process.rss_bytes)
    assert [(client.messages, client.payload_bytes) for client in sample.clients] == [(500, 8_000)] * 2
    assert sample.latency is not None
    assert sample.latency.count == 2 * -(-500 // batch)
    assert ("acks_settled_us" in sample.extra) == (acks == "explicit")


@pytest.mark.parametrize("acks", ["explicit", "none"])
def test_clients_can_share_a_consumer(process: Process, acks: str, name: str) -> None:
    plan = StreamConsume(10, 16, 1_000, 3, acks, shared=True, stream=name)
    sample = plan.run(process.address, process.rss_bytes)
    assert sum(client.messages for client in sample.clients) == 1_000


def test_the_stream_is_kept_on_request_and_used_as_it_is(process: Process) -> None:
    publish = StreamPublish(64, 16, 500, keep=True, message_ids=True, stream="kept", subject="kept")
    publish.run(process.address, process.rss_bytes)
    publish.run(process.address, process.rss_bytes)
    consume = StreamConsume(100, 16, 1_000, stream="kept", subject="kept")
    assert consume.run(process.address, process.rss_bytes).clients[0].payload_bytes == 16_000
    with open_api(process.address) as api:
        facts = stream_facts(api, "kept")
        assert facts is not None
        assert (facts.messages, facts.first, facts.last) == (1_000, 1, 1_000)
        assert api.request("CONSUMER.NAMES.kept")["total"] == 0
        with pytest.raises(BenchError, match="stream kept holds 1,000 messages, and 1,001 are wanted"):
            StreamConsume(100, 16, 1_001, stream="kept").run(process.address, process.rss_bytes)
        api.request("STREAM.DELETE.kept")


def test_nothing_is_left_after_a_run(process: Process, name: str) -> None:
    StreamConsume(100, 16, 1_000, stream=name).run(process.address, process.rss_bytes)
    with open_api(process.address) as api:
        assert api.request("STREAM.NAMES")["streams"] == [STAYS]
        assert stream_facts(api, name) is None


def test_refusals_are_counted_and_quoted(process: Process) -> None:
    full = {"name": "full", "subjects": ["full"], "max_msgs": 10, "discard": "new", "storage": "memory"}
    with open_api(process.address) as api:
        api.request("STREAM.CREATE.full", full)
        plan = StreamPublish(4, 16, 100, stream="full", subject="full")
        with pytest.raises(
            BenchError, match=r"^90 of 100 messages were not stored: .*maximum messages exceeded"
        ):
            plan.run(process.address, process.rss_bytes)
        api.request("STREAM.DELETE.full")


def test_a_message_that_no_stream_takes_is_refused(process: Process) -> None:
    with open_api(process.address) as api:
        api.request("STREAM.CREATE.other", {"name": "other", "subjects": ["other"], "storage": "memory"})
        with pytest.raises(BenchError, match=r"^100 of 100 messages were not stored: NATS/1.0 503"):
            StreamPublish(4, 16, 100, stream="other").run(process.address, process.rss_bytes)
        api.request("STREAM.DELETE.other")


def test_a_stream_with_a_gap_is_noticed(process: Process) -> None:
    StreamPublish(64, 16, 20, keep=True, stream="gap", subject="gap").run(process.address, process.rss_bytes)
    with open_api(process.address) as api:
        api.request("STREAM.MSG.DELETE.gap", {"seq": 7, "no_erase": True})
        with pytest.raises(BenchError, match="message 8 after 6"):
            StreamConsume(5, 16, 19, stream="gap").run(process.address, process.rss_bytes)
        api.request("STREAM.DELETE.gap")


def test_what_the_server_says_of_a_pull_is_quoted(process: Process) -> None:
    """A consumer that is deleted while its batch is awaited."""
    plan = StreamConsume(10, 16, 100)
    with plan.prepared(process.address) as ready:
        ready.api.request(f"STREAM.PURGE.{STREAM}", {"keep": 5})
        ready.api.request(f"CONSUMER.DELETE.{STREAM}.{ready.names[0]}")
        with pytest.raises(BenchError, match=r"the server refused subscriber 0: NATS/1\.0 503"):
            ready.run(process.address, process.rss_bytes)


def test_a_server_without_streams_is_named(nats_server: Server) -> None:
    with running(nats_server) as process, pytest.raises(BenchError, match="has no JetStream"):
        StreamPublish(1, 1, 1).run(process.address, process.rss_bytes)


def test_the_configuration_reaches_the_server(nats_server: Server, tmp_path: Path) -> None:
    config = tmp_path / "always.conf"
    config.write_text("jetstream { sync_interval: always }\nmax_payload: 1000\n")
    server = Server("nats-server", nats_server.command, config_file=str(config))
    with running(server, streams=True) as process:
        StreamPublish(10, 1000, 10).run(process.address, process.rss_bytes)
        with pytest.raises(BenchError, match="Maximum Payload"):
            StreamPublish(10, 1001, 10).run(process.address, process.rss_bytes)
        assert Path(process.store).is_dir()


def test_the_file_system_of_a_directory_is_known() -> None:
    assert filesystem_of("/proc") == "proc"
    assert filesystem_of("/proc/self/task") == "proc"
    assert filesystem_of("/procedure") == filesystem_of("/")


def test_scaling_keeps_a_message_per_client() -> None:
    assert StreamPublish(1, 1, 100, 5).scaled(0.01).messages == 5
    assert StreamConsume(1, 1, 100).scaled(0.5).messages == 50
    assert KeyValuePuts(1, 1, 100).scaled(0.001).messages == 1
    assert KeyValueGets(1, 1, 100).scaled(0.5).requests == 50
