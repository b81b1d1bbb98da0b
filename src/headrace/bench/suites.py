"""The rows that `headrace bench compare` and `make bench` measure.

With these message counts, one round of most rows takes Headrace half a second or more on two cores: a shorter
one measures how connections warm up.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.bench.compare import Row
from headrace.bench.workloads import (
    FixedRate,
    IdleConnections,
    KeyValueGets,
    KeyValuePuts,
    ManySubjects,
    PublishSubscribe,
    RequestReply,
    StreamConsume,
    StreamMemory,
    StreamPublish,
    StreamRecovery,
    TlsHandshakes,
)
from headrace.bench.workloads.workload import SUBJECT
from headrace.errors import UsageError


def _permissions(rules: int) -> str:
    """A user with this many rules, which everybody is who has no credentials."""

    def some(word: str) -> str:
        return ", ".join(f'"{word}.{number}.*"' for number in range(rules // 4 - 1))

    allow, deny = f'"{SUBJECT}", {some("open")}', f'"{SUBJECT}.secret", {some("closed")}'
    subjects = f"{{ allow: [{allow}], deny: [{deny}] }}"
    permissions = f"{{ publish: {subjects}, subscribe: {subjects} }}"
    return (
        f"no_auth_user: bench\nauthorization {{ users: [{{ user: bench, permissions: {permissions} }}] }}\n"
    )


ALIKE = "the same, all subscribers with the same sid"
FULL = (
    Row("1-0", "1 publisher, no subscriber, 128 B", PublishSubscribe(1, 0, 128, 16_000_000)),
    Row("1-1", "1 → 1, 128 B", PublishSubscribe(1, 1, 128, 6_000_000)),
    Row("1-10", "1 → 10, 128 B", PublishSubscribe(1, 10, 128, 1_600_000)),
    Row("10-10", "10 → 10, 128 B", PublishSubscribe(10, 10, 128, 1_600_000), target=5),
    Row("10-10-alike", ALIKE, PublishSubscribe(10, 10, 128, 1_600_000, alike=True)),
    Row(
        "10-10-permissions",
        "10 → 10, 128 B, a user with 100 permission rules",
        PublishSubscribe(10, 10, 128, 1_600_000),
        config=_permissions(100),
    ),
    Row("10-100", "10 → 100, 1000 B", PublishSubscribe(10, 100, 1000, 80_000), target=1.8),
    Row("10-100-alike", ALIKE, PublishSubscribe(10, 100, 1000, 80_000, alike=True)),
    Row("10-1000", "10 → 1000, 1000 B", PublishSubscribe(10, 1000, 1000, 6_000)),
    Row("10-1000-alike", ALIKE, PublishSubscribe(10, 1000, 1000, 6_000, alike=True)),
    Row(
        "1-10-on-one",
        "1 → 10 subscriptions of one connection, 128 B",
        PublishSubscribe(1, 1, 128, 1_600_000, subscriptions=10),
        target=4,
    ),
    Row(
        "queues",
        "10 → 10 queue groups of 10 members, 128 B",
        PublishSubscribe(10, 100, 128, 800_000, queue_groups=10),
        target=4,
    ),
    Row("headers", "1 → 1, 128 B, two headers", PublishSubscribe(1, 1, 128, 4_000_000, headers=2), target=4),
    Row("64k", "1 → 1, 64 KiB", PublishSubscribe(1, 1, 65536, 48_000)),
    Row("4-1", "4 → 1, 128 B, one message per system call", PublishSubscribe(4, 1, 128, 1_200_000, True)),
    Row("request-1", "request/reply, 128 B, 1 in flight", RequestReply(1, 128, 5_000)),
    Row("request-64", "request/reply, 128 B, 64 in flight", RequestReply(64, 128, 480_000)),
    Row("subjects", "1,000,000 subjects in random order → 1 wildcard, 128 B", ManySubjects(1_000_000, 128)),
    Row("latency", "p99 latency, 1 → 1, 128 B, 20,000 per second", FixedRate(20_000, 2.0, 128)),
    Row(
        "websocket",
        "WebSocket, 1 → 10, 128 B",
        PublishSubscribe(1, 10, 128, 1_600_000, in_websocket=True),
        target=1.5,
        config='websocket { listen: "127.0.0.1:-1", no_tls: true }\n',
    ),
    Row("idle", "memory per idle connection, 10,000 of them", IdleConnections(10_000)),
    Row("tls-1-1", "1 → 1, 128 B, TLS", PublishSubscribe(1, 1, 128, 1_000_000), tls=True),
    Row("tls-10-10", "10 → 10, 128 B, TLS", PublishSubscribe(10, 10, 128, 200_000), tls=True),
    Row("tls-handshakes", "TLS handshakes", TlsHandshakes(1_000), tls=True),
    Row("tls-idle", "memory per idle TLS connection, 10,000 of them", IdleConnections(10_000), tls=True),
)
SYNC_ALWAYS = "jetstream { sync_interval: always }\n"
# Acknowledgements mean different things: by default, nats-server syncs every two minutes.
STREAMS = (
    Row(
        "stream-4096", "publish to a file stream, 128 B, 4096 in flight", StreamPublish(4096, 128, 1_600_000)
    ),
    Row(
        "stream-4096-always",
        "the same, the reference with sync_interval: always",
        StreamPublish(4096, 128, 1_600_000),
        reference_config=SYNC_ALWAYS,
        reference_share=0.03,
    ),
    Row(
        "stream-1-always",
        "publish to a file stream, 128 B, 1 in flight, the reference with sync_interval: always",
        StreamPublish(1, 128, 2_000),
        reference_config=SYNC_ALWAYS,
    ),
    Row(
        "stream-4096-ids",
        "publish to a file stream, 128 B, 4096 in flight, a Nats-Msg-Id each",
        StreamPublish(4096, 128, 1_600_000, message_ids=True),
    ),
    Row(
        "stream-256-expected",
        "publish to a file stream, 128 B, 256 in flight, each with the expected last sequence",
        StreamPublish(256, 128, 400_000, expects="Nats-Expected-Last-Sequence"),
    ),
    Row(
        "stream-256-expected-subject",
        "the same with the expected last sequence of the subject",
        StreamPublish(256, 128, 400_000, expects="Nats-Expected-Last-Subject-Sequence"),
    ),
    Row("kv-put", "key-value puts, 10,000 keys, 128 B, 64 in flight", KeyValuePuts(64, 128, 400_000)),
    Row("kv-get", "key-value gets, 10,000 keys, 128 B, 64 in flight", KeyValueGets(64, 128, 400_000)),
    Row(
        "stream-pull",
        "pull from a file stream, 128 B, batches of 20,000, explicit acks",
        StreamConsume(20_000, 128, 1_600_000),
    ),
    Row(
        "stream-pull-none",
        "pull from a file stream, 128 B, batches of 20,000, no acks",
        StreamConsume(20_000, 128, 1_600_000, acks="none"),
    ),
    Row("stream-start", "start with a stream of 1 GB, after a clean stop", StreamRecovery(1000, 1_000_000)),
    Row(
        "stream-recover",
        "start with a stream of 1 GB, after kill -9 while it was written to",
        StreamRecovery(1000, 1_000_000, kill=True),
    ),
)
LONG = (
    Row(
        "stream-memory",
        "memory per stored message, 10,000,000 messages of 16 B",
        StreamMemory(16, 10_000_000),
    ),
)
QUICK_FACTOR = 0.1
QUICK_ROWS = ("1-0", "1-1", "1-10", "10-10", "10-100", "request-1", "request-64", "latency")
QUICK = tuple(
    replace(row, workload=row.workload.scaled(QUICK_FACTOR)) for row in FULL if row.key in QUICK_ROWS
)

SUITES = {"quick": QUICK, "full": FULL, "streams": STREAMS, "long": LONG}
ROUNDS = {"quick": 3, "full": 5, "streams": 5, "long": 1}


def choose_rows(suite: str, keys: str | None = None) -> list[Row]:
    """The rows of a suite, or those with the given keys. Raises UsageError."""
    rows = SUITES[suite]
    if keys is None:
        return list(rows)
    wanted = [key.strip() for key in keys.split(",") if key.strip()]
    known = [row.key for row in rows]
    if unknown := [key for key in wanted if key not in known]:
        elsewhere = [name for name, others in SUITES.items() if {row.key for row in others} & set(unknown)]
        hint = f"; --suite {elsewhere[0]} has it" if elsewhere and len(unknown) == 1 else ""
        raise UsageError(f"no such row: {', '.join(unknown)} (there are {', '.join(known)}){hint}")
    if not wanted:
        raise UsageError(f"no row is named (there are {', '.join(known)})")
    return [row for row in rows if row.key in wanted]
