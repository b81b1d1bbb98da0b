"""Every kind of workload once against the real nats-server, with few messages."""

import pytest

from headrace.bench.failure import BenchError
from headrace.bench.servers import Process
from headrace.bench.workloads import FixedRate, IdleConnections, ManySubjects, PublishSubscribe, RequestReply


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


@pytest.mark.parametrize(
    ("workload", "received"),
    [
        (PublishSubscribe(2, 3, 128, 5_000, alike=True), 15_000),
        (PublishSubscribe(2, 3, 128, 5_000, subscriptions=4), 60_000),
        (PublishSubscribe(2, 6, 128, 5_000, queue_groups=3), 15_000),
        (PublishSubscribe(2, 3, 128, 5_000, headers=2), 15_000),
    ],
)
def test_all_that_is_to_be_delivered_is(process: Process, workload: PublishSubscribe, received: int) -> None:
    sample = workload.run(process.address, process.rss_bytes)
    receivers = [client for client in sample.clients if client.role == "subscriber"]
    assert sum(client.messages for client in receivers) == received
    assert sum(client.payload_bytes for client in receivers) == received * 128
    assert sample.value == pytest.approx(received / sample.seconds)


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


def test_several_requesters_share_the_requests_and_responders_the_work(process: Process) -> None:
    workload = RequestReply(4, 16, 2_001, requesters=2, responders=3)
    sample = workload.run(process.address, process.rss_bytes)
    assert [client.messages for client in sample.clients if client.role == "requester"] == [1_001, 1_000]
    assert sum(client.messages for client in sample.clients if client.role == "responder") == 2_001
    assert sample.latency is not None
    assert sample.latency.count == 2_001
    assert sum(part.distribution.count for part in sample.slices) == 2_001


@pytest.mark.parametrize("processes", [2, 3, 7])
def test_the_clients_can_be_spread_over_processes(process: Process, processes: int) -> None:
    shares: list[float] = []
    workload = PublishSubscribe(3, 2, 16, 5_000, processes=processes)
    sample = workload.run(process.address, process.rss_bytes, shares.append)
    assert [client.role for client in sample.clients] == ["publisher"] * 3 + ["subscriber"] * 2
    assert [client.messages for client in sample.clients] == [1667, 1667, 1666, 5_000, 5_000]
    assert shares[-1] == 1.0


def test_a_failure_in_a_process_is_reported_once(process: Process) -> None:
    workload = PublishSubscribe(2, 2, 16, 100, subject="a..b", processes=2)
    with pytest.raises(BenchError, match="the server refused: -ERR 'Invalid Subject'"):
        workload.run(process.address, process.rss_bytes)


@pytest.mark.parametrize(("publishers", "subscribers"), [(1, 1), (3, 2)])
def test_every_message_at_a_fixed_rate_is_timed(process: Process, publishers: int, subscribers: int) -> None:
    workload = FixedRate(5_000, 0.5, 16, publishers, subscribers)
    sample = workload.run(process.address, process.rss_bytes)
    sent = [client.messages for client in sample.clients if client.role == "publisher"]
    assert sum(sent) == 2_500
    assert max(sent) - min(sent) <= 1
    assert [client.messages for client in sample.clients if client.role == "subscriber"] == [
        2_500
    ] * subscribers
    assert sample.latency is not None
    assert sample.send_delay is not None
    assert sample.latency.count == 2_500 * subscribers
    assert sample.send_delay.count == 2_500
    assert 0 < sample.latency.percentile(50) <= sample.value <= sample.latency.max_us
    assert sample.seconds >= 2_499 / 5_000  # nothing is sent before it is due


def test_there_may_be_more_publishers_than_messages(process: Process) -> None:
    for workload in (FixedRate(100, 0.02, 8, 5, 1), PublishSubscribe(5, 1, 8, 2)):
        sample = workload.run(process.address, process.rss_bytes)
        assert [client.messages for client in sample.clients] == [1, 1, 0, 0, 0, 2]
    sample = RequestReply(1, 8, 2, requesters=3).run(process.address, process.rss_bytes)
    assert [client.messages for client in sample.clients] == [2, 1, 1, 0]


def test_slices_of_a_fixed_rate_hold_what_was_due_in_them(process: Process) -> None:
    sample = FixedRate(1_000, 2.5, 0).run(process.address, process.rss_bytes)
    assert [(part.start_seconds, part.seconds, part.distribution.count) for part in sample.slices] == [
        (0.0, 1.0, 1000),
        (1.0, 1.0, 1000),
        (2.0, 0.5, 500),
    ]


@pytest.mark.parametrize("wildcard", [">", "*", "none"])
@pytest.mark.parametrize(("queue", "received"), [("", [9_000, 9_000]), ("group", None)])
def test_many_subjects(process: Process, wildcard: str, queue: str, received: list[int] | None) -> None:
    workload = ManySubjects(
        1_100, 16, messages=9_000, publishers=2, subscribers=2, wildcard=wildcard, queue=queue
    )
    sample = workload.run(process.address, process.rss_bytes)
    counts = [client.messages for client in sample.clients if client.role == "subscriber"]
    assert [client.messages for client in sample.clients if client.role == "publisher"] == [4_500, 4_500]
    assert sum(counts) == (9_000 if queue else 18_000)
    assert received is None or counts == received
    assert sample.value == pytest.approx(sum(counts) / sample.seconds)


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
