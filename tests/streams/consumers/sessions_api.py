"""Sessions about the API of consumers, played to both servers by test_consumer_sessions.py."""

from __future__ import annotations

from typing import Any

from tests.streams.recorder import Recorder

EXPLICIT = {"ack_policy": "explicit"}
MILLISECOND = 1_000_000
SECOND = 1_000 * MILLISECOND
LONG_AGO, FAR_AWAY = "2001-01-01T00:00:00Z", "2101-01-01T00:00:00.5Z"

# What is wrong with each; every one is sent as it is, and as a pedantic request.
CONFIGS: tuple[dict[str, Any], ...] = (
    {},
    {"ack_policy": "all", "ack_wait": 5 * SECOND, "description": "d", "metadata": {"a": "b"}},
    {"ack_policy": "sometimes"},
    {"replay_policy": "never"},
    {"deliver_policy": "first"},
    {"max_deliver": -5, "max_ack_pending": -7, "max_waiting": -1},
    {"max_batch": -1},
    {"max_expires": -1},
    {"max_expires": 1000},
    {"max_bytes": -1},
    {"idle_heartbeat": -1},
    {"inactive_threshold": -1},
    {"num_replicas": 2},
    {"num_replicas": -1},
    {"backoff": [-1]},
    {"ack_wait": -1, **EXPLICIT},
    {"backoff": [SECOND, 2 * SECOND], "max_deliver": 1, **EXPLICIT},
    {"backoff": [SECOND, 2 * SECOND], "max_deliver": 3, **EXPLICIT},
    {"description": "x" * 5000},
    {"deliver_subject": "a.*"},
    {"deliver_subject": "a..b"},
    {"deliver_subject": "s.x"},
    {"deliver_subject": "out", "max_waiting": 5},
    {"deliver_subject": "out", "max_ack_pending": 5, "ack_policy": "none"},
    {"deliver_subject": "out", "idle_heartbeat": 5},
    {"deliver_subject": "out", "flow_control": True},
    {"deliver_subject": "out", "rate_limit_bps": 1000, "deliver_group": "g", **EXPLICIT},
    {"rate_limit_bps": 1000},
    {"idle_heartbeat": SECOND},
    {"flow_control": True},
    {"direct": True},
    {"filter_subject": "s.a", "filter_subjects": ["s.b"]},
    {"filter_subject": "s..a"},
    {"filter_subjects": ["s.a", ""]},
    {"filter_subjects": ["s.a", "s.*"]},
    {"filter_subjects": ["s.a", "s..b"]},
    {"filter_subjects": ["s.a", "s.b"]},
    {"filter_subject": "t.other"},
    {"opt_start_seq": 3},
    {"opt_start_time": LONG_AGO},
    {"deliver_policy": "last", "opt_start_seq": 3},
    {"deliver_policy": "last", "opt_start_time": LONG_AGO},
    {"deliver_policy": "new", "opt_start_seq": 3},
    {"deliver_policy": "new", "opt_start_time": LONG_AGO},
    {"deliver_policy": "last_per_subject"},
    {"deliver_policy": "last_per_subject", "opt_start_seq": 3},
    {"deliver_policy": "by_start_sequence"},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 3, "opt_start_time": LONG_AGO},
    {"deliver_policy": "by_start_time"},
    {"deliver_policy": "by_start_time", "opt_start_time": LONG_AGO, "opt_start_seq": 3},
    {"deliver_policy": "by_start_time", "opt_start_time": LONG_AGO},
    {"sample_freq": "30%", **EXPLICIT},
    {"sample_freq": "often"},
    {"sample_freq": "-5"},
    {"metadata": {"k": "v" * 140_000}},
    {"durable_name": "D"},
    {"priority_policy": "overflow"},
    {"priority_policy": "overflow", "priority_groups": [""]},
    {"priority_policy": "overflow", "priority_groups": ["not a name"]},
    {"priority_policy": "overflow", "priority_groups": ["A"], "deliver_subject": "out"},
    {"priority_policy": "pinned_client", "priority_groups": ["A"]},
    {"priority_policy": "prioritized", "priority_groups": ["A"]},
    {"priority_policy": "other"},
    {"priority_groups": ["A"]},
    {"priority_timeout": SECOND},
    {"priority_timeout": -1},
    {"ack_policy": "flow_control"},
    {"ack_policy": "flow_control", "deliver_subject": "out"},
    {"ack_policy": "flow_control", "deliver_subject": "out", "ack_wait": 5},
    {"ack_policy": "flow_control", "deliver_subject": "out", "max_deliver": 5},
    {"pause_until": FAR_AWAY},
    {"pause_until": LONG_AGO},
    {"mem_storage": True, "inactive_threshold": SECOND * 60},
    {"unknown_field": 1},
    {"max_deliver": "x"},
    {"opt_start_time": "yesterday"},
)


async def configurations(play: Recorder) -> None:
    await play.stream()
    for pedantic in (False, True):
        for config in CONFIGS:
            await play.consumer(pedantic=pedantic, **config)
            await play.client.request("$JS.API.CONSUMER.DELETE.S.C", b"", timeout=30)


async def limits_of_the_stream(play: Recorder) -> None:
    await play.stream(
        consumer_limits={"max_ack_pending": 10, "inactive_threshold": 50 * SECOND}, max_consumers=2
    )
    await play.consumer("A", **EXPLICIT)
    await play.consumer("B", max_ack_pending=11, **EXPLICIT)
    await play.consumer("B", inactive_threshold=60 * SECOND, **EXPLICIT)
    await play.consumer("B", pedantic=True, **EXPLICIT)
    await play.consumer("B", pedantic=True, max_ack_pending=5, **EXPLICIT)
    await play.consumer("B", **EXPLICIT)
    await play.consumer("C", **EXPLICIT)


async def ways_to_create(play: Recorder) -> None:
    await play.stream()
    requests: tuple[tuple[str, Any], ...] = (
        ("CREATE.S", {"stream_name": "S", "config": {}}),
        ("CREATE.S", {"stream_name": "S", "config": {"name": "N1"}}),
        ("CREATE.S", {"stream_name": "S", "config": {"durable_name": "D1"}}),
        ("CREATE.S", {"stream_name": "T", "config": {}}),
        ("CREATE.T", {"stream_name": "T", "config": {}}),
        ("CREATE.S.N2", {"stream_name": "S", "config": {}}),
        ("CREATE.S.N2", {"stream_name": "S", "config": {"durable_name": "N3"}}),
        ("CREATE.S.N3", {"stream_name": "S", "config": {"name": "other", "durable_name": "N3"}}),
        ("CREATE.S.N4.s.a", {"stream_name": "S", "config": {"filter_subject": "s.a"}}),
        ("CREATE.S.N5.s.a", {"stream_name": "S", "config": {"filter_subject": "s.b"}}),
        ("CREATE.S.N5.s.a", {"stream_name": "S", "config": {}}),
        ("CREATE.S.N5.s.a", {"stream_name": "S", "config": {"filter_subjects": ["s.a"]}}),
        ("CREATE.S.a/b", {"stream_name": "S", "config": {}}),
        ("CREATE.S", {"stream_name": "S", "config": {"name": "a/b"}}),
        ("CREATE.S", {"stream_name": "S", "config": {"name": "a.b"}}),
        ("DURABLE.CREATE.S.D2", {"stream_name": "S", "config": {"durable_name": "D2", **EXPLICIT}}),
        ("DURABLE.CREATE.S.D3", {"stream_name": "S", "config": {"durable_name": "D4"}}),
        ("DURABLE.CREATE.S.D3", {"stream_name": "S", "config": {}}),
        ("DURABLE.CREATE.S." + "x" * 256, {"stream_name": "S", "config": {"durable_name": "x" * 256}}),
        ("CREATE.S.N6", {"stream_name": "S", "config": {}, "action": "update"}),
        ("CREATE.S.N6", {"stream_name": "S", "config": {}, "action": "create"}),
        ("CREATE.S.N6", {"stream_name": "S", "config": {"max_waiting": 5}, "action": "create"}),
        ("CREATE.S.N6", {"stream_name": "S", "config": {}, "action": "remove"}),
        ("CREATE.S.N7", b""),
        ("CREATE.S.N7", b"{"),
        ("CREATE.S.N7", b"[]"),
        ("CREATE.S.N7", {"stream_name": "S", "config": {"durable_name": "N7"}, "action": "create"}),
        ("CREATE.S.N7", {"stream_name": "S", "config": {"durable_name": "N7"}, "action": "create"}),
    )
    for subject, body in requests:
        answer = await play.client.request("$JS.API.CONSUMER." + subject, encode(body), timeout=30)
        play.note(f"{subject} {body}\n" + hide_generated(answer.data.decode()))
    await play.ask("CONSUMER.INFO.S.nothing")
    await play.ask("CONSUMER.INFO.T.nothing")
    await play.ask("CONSUMER.INFO.S.D2", b'{"a":1}')
    await play.ask("CONSUMER.INFO.S.D2", b"{}")
    await play.ask("CONSUMER.DELETE.S.D2", b"x")


def encode(body: Any) -> bytes:
    import json

    return body if isinstance(body, bytes) else json.dumps(body).encode()


def hide_generated(text: str) -> str:
    import json
    import re

    from tests.streams.recorder import show

    value = json.loads(text)
    if re.fullmatch(r"[0-9A-Za-z]{8}", value.get("name", "")):
        value["name"] = "<generated>"
    return show(value)


async def updates(play: Recorder) -> None:
    await play.stream()
    base = {"durable_name": "C", **EXPLICIT}
    await play.consumer(**base)
    for change in (
        {"description": "new"},
        {"max_deliver": 5, "ack_wait": SECOND},
        {"max_ack_pending": 5, "max_batch": 3, "max_expires": SECOND, "max_bytes": 100},
        {"filter_subject": "s.b"},
        {"filter_subjects": ["s.a", "s.c"]},
        {"inactive_threshold": 60 * SECOND},
        {"headers_only": True, "sample_freq": "50"},
        {"backoff": [SECOND, SECOND], "max_deliver": 3},
        {"deliver_policy": "new"},
        {"mem_storage": True},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 2},
        {"ack_policy": "all"},
        {"replay_policy": "original"},
        {"deliver_subject": "out"},
        {"max_waiting": 10},
        {"metadata": {"x": "y"}},
        {"pause_until": FAR_AWAY},
        {},
    ):
        await play.consumer(**{**base, **change})
    await play.consumer(action="create", **base)
    await play.consumer(action="create", **{**base, "description": "z"})
    await play.consumer(action="update", **{**base, "description": "z"})
    await play.consumer("E", action="update")


async def lists(play: Recorder) -> None:
    await play.stream()
    await play.ask("CONSUMER.NAMES.S")
    await play.ask("CONSUMER.LIST.S")
    for name in ("b", "a", "c"):
        await play.consumer(name)
    for subject in ("CONSUMER.NAMES", "CONSUMER.LIST"):
        await play.ask(f"{subject}.S")
        await play.ask(f"{subject}.S", {"offset": 1})
        await play.ask(f"{subject}.S", {"offset": 10})
        await play.ask(f"{subject}.S", {"offset": -1})
        await play.ask(f"{subject}.S", b"[1]")
        await play.ask(f"{subject}.S", b"text")
        await play.ask(f"{subject}.T")


async def pauses(play: Recorder) -> None:
    await play.stream()
    subject = "$JS.EVENT.ADVISORY.CONSUMER.PAUSE.S.C"
    await play.listen(subject)
    await play.consumer(durable_name="C", pause_until=FAR_AWAY, **EXPLICIT)
    await play.receive(1, at=subject)
    await play.publish("s.a")
    await play.pull({"batch": 1, "expires": 200 * MILLISECOND})
    await play.receive()
    await play.info()
    await play.ask("CONSUMER.PAUSE.S.C")
    await play.receive(1, at=subject)
    await play.pull({"batch": 1})
    await play.receive()
    await play.info()
    await play.ask("CONSUMER.PAUSE.S.C", {"pause_until": FAR_AWAY})
    await play.info()
    await play.ask("CONSUMER.PAUSE.S.C", {"pause_until": LONG_AGO})
    await play.ask("CONSUMER.PAUSE.S.C", {"pause_until": "x"})
    await play.ask("CONSUMER.PAUSE.S.C", b"x")
    await play.ask("CONSUMER.PAUSE.S.D", b"{}")
    await play.ask("CONSUMER.PAUSE.T.D", b"{}")


async def resets(play: Recorder) -> None:
    await play.stream()
    await play.publish(*["s.a"] * 5)
    # In memory: nats-server does not write a reset to a file while it still writes the state before it.
    await play.consumer(durable_name="C", **EXPLICIT, mem_storage=True)
    await play.pull({"batch": 4})
    messages = await play.receive(4)
    await play.ack(messages[0], double=True)
    await play.ask("CONSUMER.RESET.S.C")
    await play.pull({"batch": 1})
    await play.receive(1)
    await play.ask("CONSUMER.RESET.S.C", {"seq": 4})
    await play.pull({"batch": 1})
    await play.receive(1)
    await play.ask("CONSUMER.RESET.S.C", b"{")
    await play.ask("CONSUMER.RESET.S.C", {"seq": "x"})
    await play.consumer("N", deliver_policy="new", mem_storage=True)
    await play.ask("CONSUMER.RESET.S.N", {"seq": 1})
    await play.consumer("Q", deliver_policy="by_start_sequence", opt_start_seq=3, mem_storage=True)
    await play.ask("CONSUMER.RESET.S.Q", {"seq": 2})
    await play.ask("CONSUMER.RESET.S.Q", {"seq": 3})
    await play.consumer("M", deliver_policy="by_start_time", opt_start_time=FAR_AWAY, mem_storage=True)
    await play.ask("CONSUMER.RESET.S.M", {"seq": 2})


async def lifecycle_advisories(play: Recorder) -> None:
    await play.stream()
    for action in ("CREATED", "DELETED"):
        await play.listen(f"$JS.EVENT.ADVISORY.CONSUMER.{action}.S.C")
    await play.consumer()
    await play.receive(1, at="$JS.EVENT.ADVISORY.CONSUMER.CREATED.S.C")
    await play.ask("CONSUMER.DELETE.S.C")
    await play.receive(1, at="$JS.EVENT.ADVISORY.CONSUMER.DELETED.S.C")


SESSIONS = (
    configurations,
    limits_of_the_stream,
    ways_to_create,
    updates,
    lists,
    pauses,
    resets,
    lifecycle_advisories,
)
