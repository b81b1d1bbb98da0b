"""Every kind of workload once against the real nats-server, with few messages."""

import pytest

from headrace.bench.servers import Process
from headrace.bench.workloads import IdleConnections, ManySubjects, PublishSubscribe, RequestReply


@pytest.mark.parametrize("one_message_per_write", [False, True])
@pytest.mark.parametrize(("publishers", "subscribers"), [(1, 0), (1, 1), (3, 0), (3, 5), (1, 40)])
def test_every_subscriber_gets_every_message(
    process: Process, publishers: int, subscribers: int, one_message_per_write: bool
) -> None:
    workload = PublishSubscribe(publishers, subscribers, 128, 5_000, one_message_per_write)
    sample = workload.run(process.address, process.rss_bytes)
    sent = [client.messages for client in sample.clients if client.role == "publisher"]
    received = [client.messages for client in sample.clients if client.role == "subscriber"]
    assert sum(sent) == 5_000
    assert len(sent) == publishers
    assert received == [5_000] * subscribers
    assert all(client.payload_bytes == client.messages * 128 for client in sample.clients)
    assert sample.value == pytest.approx(5_000 * max(1, subscribers) / sample.seconds)
    assert sample.generator_cpu_share > 0


@pytest.mark.parametrize("size", [0, 1, 65536])
def test_any_payload_size_is_counted(process: Process, size: int) -> None:
    sample = PublishSubscribe(1, 1, size, 300).run(process.address, process.rss_bytes)
    assert (sample.clients[1].messages, sample.clients[1].payload_bytes) == (300, 300 * size)


@pytest.mark.parametrize("in_flight", [1, 64, 5_000])
def test_every_request_is_answered(process: Process, in_flight: int) -> None:
    sample = RequestReply(in_flight, 128, 2_000).run(process.address, process.rss_bytes)
    assert [(client.role, client.messages) for client in sample.clients] == [
        ("responder", 2_000),
        ("requester", 2_000),
    ]
    assert 0 < sample.extra["p50_us"] <= sample.extra["p99_us"]


def test_every_subject_arrives_at_the_wildcard(process: Process) -> None:
    sample = ManySubjects(5_000, 16).run(process.address, process.rss_bytes)
    assert [client.messages for client in sample.clients] == [5_000, 5_000]
    assert sample.clients[1].payload_bytes == 5_000 * 16


def test_idle_connections_cost_memory(process: Process) -> None:
    sample = IdleConnections(500, settle_seconds=0.1).run(process.address, process.rss_bytes)
    assert sample.value > 0
    resident = process.rss_bytes()
    assert process.peak_rss_bytes() >= resident > 0
    assert process.cpu_seconds() >= 0


def test_scaling_keeps_at_least_one_message_per_publisher() -> None:
    assert PublishSubscribe(10, 1, 1, 1000).scaled(0.001).messages == 10
    assert RequestReply(64, 1, 1000).scaled(0.5).requests == 500
    assert ManySubjects(10, 1).scaled(0.1).subjects == 1
    assert IdleConnections(10).scaled(0.5).connections == 5
