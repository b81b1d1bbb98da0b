"""Sessions about what a publish may carry and what becomes of it, in the language of tests/interop.

Each is played against nats-server and against headrace; test_ingest_sessions.py compares the answers.
"""

from __future__ import annotations

from typing import Any

from tests.interop import settings
from tests.interop.jetstream import SECOND, api, create, expect, info, message, publish, streams_session
from tests.interop.jetstream import update as change
from tests.interop.session import Session, Step, hpub, pub, send


def stored(seq: int, stream: str = "S") -> Step:
    """Look at a stored message: its subject, headers and payload."""
    return api(f"STREAM.MSG.GET.{stream}", {"seq": seq})


def s(**config: Any) -> Step:
    return create("S", **{"subjects": ["s.>"], **config})


def batch(seq: int, subject: str = "s.a", batch_id: str = "b", **values: Any) -> Step:
    """One message of an atomic batch."""
    return publish(subject, b"%d" % seq, Nats_Batch_Id=batch_id, Nats_Batch_Sequence=seq, **values)


def fast(
    seq: int,
    operation: int,
    messages: int = 1,
    subject: str = "s.a",
    *,
    batch_id: str = "b",
    flow: int = 2,
    gap: str = "fail",
    payload: bytes = b"x",
    **values: Any,
) -> Step:
    """One message of a fast batch; operations: 0 start, 1 append, 2 commit, 3 commit at the end, 4 ping."""
    reply = f"f.{batch_id}.{flow}.{gap}.{seq}.{operation}.$FI".encode()
    return expect(messages, message(subject, payload, reply, **values))


FAST = send(b"SUB f.> 2\r\n")
SCHEDULES: dict[str, Any] = {"allow_msg_schedules": True, "allow_rollup_hdrs": True}

EXPECTATIONS = [
    streams_session(
        "expected_stream",
        s(),
        publish("s.a", Nats_Expected_Stream="S"),
        publish("s.a", Nats_Expected_Stream="T"),
        publish("s.a", Nats_Expected_Stream=""),
        info("S"),
    ),
    streams_session(
        "expected_last_sequence",
        s(),
        publish("s.a", Nats_Expected_Last_Sequence=0),
        publish("s.a", Nats_Expected_Last_Sequence=0),
        publish("s.a", Nats_Expected_Last_Sequence=1),
        publish("s.a", Nats_Expected_Last_Sequence="x"),
        publish("s.a", Nats_Expected_Last_Sequence=-1),
        publish("s.a", Nats_Expected_Last_Sequence="18446744073709551618"),
        publish("s.a", Nats_Expected_Last_Sequence=""),
        stored(3),
    ),
    streams_session(
        "expected_last_subject_sequence",
        s(),
        publish("s.a", Nats_Expected_Last_Subject_Sequence=0),
        publish("s.b", Nats_Expected_Last_Subject_Sequence=0),
        publish("s.a", Nats_Expected_Last_Subject_Sequence=2),
        publish("s.a", Nats_Expected_Last_Subject_Sequence=1),
        publish("s.c", Nats_Expected_Last_Subject_Sequence=7),
        publish(
            "s.c", Nats_Expected_Last_Subject_Sequence=3, Nats_Expected_Last_Subject_Sequence_Subject="s.a"
        ),
        publish(
            "s.c", Nats_Expected_Last_Subject_Sequence=9, Nats_Expected_Last_Subject_Sequence_Subject="s.*"
        ),
        publish(
            "s.c", Nats_Expected_Last_Subject_Sequence=4, Nats_Expected_Last_Subject_Sequence_Subject="s.*"
        ),
        publish("s.c", Nats_Expected_Last_Subject_Sequence_Subject="s.a"),
        info("S"),
    ),
    streams_session(
        "expected_last_msg_id",
        s(),
        publish("s.a", Nats_Expected_Last_Msg_Id="x"),
        publish("s.a", Nats_Msg_Id="one"),
        publish("s.a", Nats_Expected_Last_Msg_Id="x"),
        publish("s.a", Nats_Expected_Last_Msg_Id="one"),
        publish("s.a", Nats_Expected_Last_Msg_Id="one"),
        publish("s.a", Nats_Msg_Id="two"),
        publish("s.b"),
        publish("s.a", Nats_Expected_Last_Msg_Id="two"),
    ),
    streams_session(
        "duplicates",
        s(),
        publish("s.a", Nats_Msg_Id="one"),
        publish("s.a", Nats_Msg_Id="one"),
        publish("s.b", b"other", Nats_Msg_Id="one"),
        publish("s.a", Nats_Msg_Id="two"),
        publish("s.a", Nats_Msg_Id="one", Nats_Expected_Stream="S"),
        publish("s.a", Nats_Msg_Id="one", Nats_Expected_Stream="T"),
        publish("s.a", Nats_Msg_Id=""),
        publish("s.a", Nats_Msg_Id=""),
        info("S"),
    ),
    streams_session(
        "duplicates_in_a_domain",
        s(),
        publish("s.a", Nats_Msg_Id="one"),
        publish("s.a", Nats_Msg_Id="one"),
        publish("s.a", Nats_Expected_Stream="S"),
        publish("s.a", Nats_Expected_Stream="T"),
        settings=settings.JETSTREAM_DOMAIN,
    ),
]

LIMITS = [
    streams_session(
        "message_too_large",
        s(max_msg_size=10),
        publish("s.a", b"0123456789"),
        publish("s.a", b"0123456789a"),
        publish("s.a", b"01", A="b"),
        publish("s.a", b"0123456789", Nats_Expected_Stream="T"),
        info("S"),
    ),
    streams_session(
        "header_too_large",
        s(),
        publish("s.a", A="x" * 65530),
        publish("s.a", A="x" * 65500),
        publish("s.a", A="x" * 65530, Nats_Expected_Stream="S"),
        info("S"),
    ),
    streams_session(
        "sealed",
        s(),
        publish("s.a"),
        change("S", subjects=["s.>"], sealed=True),
        publish("s.a"),
        publish("s.a", Nats_Expected_Stream="T"),
        batch(1),
        info("S"),
    ),
    streams_session(
        "discard_new_messages",
        s(discard="new", max_msgs=2),
        publish("s.a"),
        publish("s.a", Nats_Expected_Stream="S"),
        publish("s.a"),
        publish("s.a", Nats_Expected_Stream="S"),
        publish("s.a", Nats_Msg_Id="x"),
        publish("s.a", Nats_Msg_Id="x"),
        info("S"),
    ),
    streams_session(
        "discard_new_bytes",
        s(discard="new", max_bytes=100),
        publish("s.a", b"0123456789"),
        publish("s.a", b"0123456789"),
        publish("s.a", b"0123456789"),
        publish("s.a", b""),
        info("S"),
    ),
    streams_session(
        "discard_new_per_subject",
        s(discard="new", max_msgs_per_subject=1, discard_new_per_subject=True, allow_rollup_hdrs=True),
        publish("s.a"),
        publish("s.a"),
        publish("s.b"),
        publish("s.a", b"rolled", Nats_Rollup="sub"),
        publish("s.a"),
        info("S"),
    ),
    streams_session("no_ack", s(no_ack=True), send(message("s.a", Nats_Expected_Stream="T")), info("S")),
    streams_session(
        "no_reply",
        s(),
        send(message("s.a", reply=b"", Nats_Expected_Stream="S")),
        publish("s.b"),
        info("S"),
    ),
    streams_session(
        "status_line_and_odd_headers",
        s(),
        expect(1, hpub(b"s.a", b"NATS/1.0 503\r\n\r\n", b"x", b"r")),
        expect(1, hpub(b"s.a", b"NATS/1.0 100 Idle\r\nA: b\r\nNats-Expected-Stream: S\r\n\r\n", b"x", b"r")),
        expect(1, hpub(b"s.a", b"NATS/1.0\r\nNats-Expected-Stream:   T\r\n\r\n", b"x", b"r")),
        expect(1, hpub(b"s.a", b"NATS/1.0\r\nnats-expected-stream: T\r\n\r\n", b"x", b"r")),
        expect(1, hpub(b"s.a", b"NATS/1.0\r\nA: b\r\nNats-Expected-Stream: T \r\n\r\n", b"x", b"r")),
        stored(1),
        stored(2),
        stored(3),
    ),
    streams_session(
        "request_info_is_removed",
        s(),
        publish("s.a", Nats_Request_Info="{}", A="b"),
        publish("s.a", Nats_Request_Info="{}"),
        stored(1),
        stored(2),
    ),
    streams_session("source_header", s(), publish("s.a", Nats_Stream_Source="x"), info("S")),
]

ROLLUPS = [
    streams_session(
        "rollup",
        s(allow_rollup_hdrs=True),
        publish("s.a", b"1"),
        publish("s.b", b"2"),
        publish("s.a", b"3"),
        publish("s.a", b"4", Nats_Rollup="sub"),
        info("S"),
        publish("s.c", b"5", Nats_Rollup="ALL"),
        info("S"),
        publish("s.c", b"6", Nats_Rollup="some"),
        publish("s.c", b"6", Nats_Rollup=""),
        stored(5),
    ),
    streams_session(
        "rollup_not_allowed", s(), publish("s.a", Nats_Rollup="sub"), publish("s.a", Nats_Rollup="x")
    ),
    streams_session(
        "rollup_in_one_tick",
        s(allow_rollup_hdrs=True),
        expect(
            4,
            message("s.a", b"1")
            + message("s.b", b"2")
            + message("s.a", b"3", Nats_Expected_Stream="S")
            + message("s.a", b"4", Nats_Rollup="sub"),
        ),
        info("S"),
    ),
]

TTLS = [
    streams_session(
        "ttl",
        s(allow_msg_ttl=True),
        *[
            publish("s.a", Nats_TTL=ttl)
            for ttl in (
                "1h",
                "60",
                "never",
                "NEVER",
                "0",
                "0.5s",
                "1s",
                "-1",
                "-5s",
                "x",
                "1.5h30m",
                "1d",
                "",
            )
        ],
        info("S"),
    ),
    streams_session(
        "ttl_not_allowed", s(), publish("s.a", Nats_TTL="1h"), publish("s.a", Nats_TTL="x"), info("S")
    ),
    streams_session(
        "ttl_is_raised_to_that_of_markers",
        s(allow_msg_ttl=True, subject_delete_marker_ttl=60 * SECOND),
        publish("s.a", Nats_TTL="5s", A="b"),
        publish("s.a", Nats_TTL="2m"),
        publish("s.a", Nats_TTL="never"),
        stored(1),
        stored(2),
        stored(3),
    ),
]

COUNTERS = [
    streams_session(
        "counter",
        s(allow_msg_counter=True),
        publish("s.a", b"", Nats_Incr="1"),
        publish("s.a", b"", Nats_Incr="+5"),
        publish("s.a", b"", Nats_Incr="-10"),
        publish("s.b", b"", Nats_Incr="123456789012345678901234567890"),
        publish("s.b", b"", Nats_Incr="1", Nats_Msg_Id="x"),
        publish("s.b", b"", Nats_Incr="1", Nats_Msg_Id="x"),
        publish("s.a", b"x", Nats_Incr="1"),
        publish("s.a", b"", Nats_Incr="1.5"),
        publish("s.a", b"", Nats_Incr="x"),
        publish("s.a", b"", Nats_Incr=""),
        publish("s.a", b""),
        publish("s.a", b"", Nats_Incr="1", Nats_Rollup="sub"),
        publish("s.a", b"", Nats_Incr="1", Nats_Expected_Last_Sequence=5),
        publish("s.a", b"", Nats_Incr="1", Nats_Expected_Stream="S"),
        stored(3),
        stored(5),
        info("S"),
    ),
    streams_session(
        "counter_not_allowed", s(), publish("s.a", b"", Nats_Incr="1"), publish("s.a", Nats_Incr="x")
    ),
]

BATCHES = [
    streams_session(
        "batch",
        s(allow_atomic=True),
        batch(1, "s.a"),
        info("S"),
        batch(2, "s.b"),
        batch(3, "s.a", Nats_Batch_Commit="1"),
        info("S"),
        stored(1),
        stored(3),
        batch(1, Nats_Batch_Commit="1"),
        batch(1),
        batch(2, Nats_Batch_Commit="eob"),
        stored(5),
        info("S"),
    ),
    streams_session(
        "batch_errors",
        s(allow_atomic=True),
        batch(2),
        publish("s.a", Nats_Batch_Id="b"),
        publish("s.a", Nats_Batch_Id="b", Nats_Batch_Sequence="x"),
        publish("s.a", Nats_Batch_Id="b" * 65, Nats_Batch_Sequence="1"),
        batch(0),
        batch(0, Nats_Batch_Commit="eob"),
        batch(1, Nats_Batch_Commit="x"),
        batch(1, Nats_Batch_Commit="eob"),
        batch(1),
        batch(3),
        batch(1001),
        batch(1),
        batch(2, Nats_Required_Api_Level="99"),
        batch(1, Nats_Required_Api_Level="2", Nats_Batch_Commit="1"),
        stored(1),
        info("S"),
    ),
    streams_session("batch_not_allowed", s(), batch(1), info("S")),
    streams_session(
        "batch_is_checked_as_a_whole",
        s(allow_atomic=True, allow_rollup_hdrs=True),
        publish("s.a"),
        batch(1),
        batch(2, Nats_Expected_Last_Sequence=1, Nats_Batch_Commit="1"),
        batch(1, Nats_Expected_Last_Sequence=1),
        batch(2, Nats_Batch_Commit="1"),
        batch(1, Nats_Expected_Last_Subject_Sequence=3),
        batch(2, Nats_Expected_Last_Subject_Sequence=3, Nats_Batch_Commit="1"),
        batch(1, "s.b", Nats_Expected_Last_Subject_Sequence=0),
        batch(2, "s.c", Nats_Expected_Last_Subject_Sequence=9, Nats_Batch_Commit="1"),
        batch(1, Nats_Expected_Last_Msg_Id="x", Nats_Batch_Commit="1"),
        batch(1, Nats_Expected_Stream="T", Nats_Batch_Commit="1"),
        batch(1, Nats_Msg_Id="x"),
        batch(2, Nats_Msg_Id="x", Nats_Batch_Commit="1"),
        batch(1, Nats_Msg_Id="y"),
        batch(2, Nats_Msg_Id="x", Nats_Batch_Commit="1"),
        batch(1, Nats_Msg_Id="y", Nats_Batch_Commit="1"),
        batch(1, "s.z", Nats_TTL="5s", Nats_Batch_Commit="1"),
        batch(1, "s.z", Nats_Incr="5", Nats_Batch_Commit="1"),
        batch(1, "s.z", Nats_Stream_Source="x", Nats_Batch_Commit="1"),
        batch(1, "s.z"),
        batch(2, "s.z", Nats_Rollup="sub", Nats_Batch_Commit="1"),
        batch(1, "s.z"),
        batch(2, "s.y", Nats_Rollup="all", Nats_Batch_Commit="1"),
        batch(1, "s.z", Nats_Rollup="sub"),
        batch(2, "s.y", Nats_Rollup="sub", Nats_Batch_Commit="1"),
        batch(1, "s.z", Nats_Rollup="x", Nats_Batch_Commit="1"),
        info("S"),
        batch(1, "s.z", Nats_Rollup="all"),
        batch(2, "s.z", Nats_Batch_Commit="1"),
        info("S"),
    ),
    streams_session(
        "batch_of_counters",
        s(allow_atomic=True, allow_msg_counter=True),
        publish("s.a", b"", Nats_Batch_Id="b", Nats_Batch_Sequence=1, Nats_Incr="2"),
        publish("s.a", b"", Nats_Batch_Id="b", Nats_Batch_Sequence=2, Nats_Incr="3", Nats_Batch_Commit="1"),
        stored(1),
        stored(2),
    ),
    streams_session(
        "batch_into_a_full_stream",
        s(allow_atomic=True, discard="new", max_msgs=2),
        publish("s.a"),
        batch(1),
        batch(2, Nats_Batch_Commit="1"),
        batch(1, Nats_Batch_Commit="1"),
        info("S"),
    ),
    streams_session(
        "batch_into_a_full_subject",
        s(allow_atomic=True, discard="new", max_msgs_per_subject=2, discard_new_per_subject=True),
        publish("s.a"),
        batch(1),
        batch(2, Nats_Batch_Commit="1"),
        batch(1),
        batch(2, "s.b", Nats_Batch_Commit="1"),
        info("S"),
    ),
    streams_session(
        "batch_through_a_transform",
        s(allow_atomic=True, subject_transform={"src": "s.*", "dest": "t.$1"}),
        batch(1, "s.a"),
        batch(2, "s.b", Nats_Batch_Commit="1"),
        stored(1),
        stored(2),
    ),
    streams_session(
        "batches_at_a_time", s(allow_atomic=True), *[batch(1, batch_id=f"b{n}") for n in range(51)]
    ),
    streams_session(
        "batch_in_a_domain",
        s(allow_atomic=True),
        batch(1, Nats_Batch_Commit="1"),
        settings=settings.JETSTREAM_DOMAIN,
    ),
]

FAST_BATCHES = [
    streams_session(
        "fast_batch",
        FAST,
        s(allow_batched=True),
        fast(1, 0),
        fast(2, 1),
        fast(3, 1, 0),
        fast(4, 1),
        fast(5, 2),
        info("S"),
        fast(1, 0),
        fast(2, 3),
        fast(1, 2),
        info("S"),
    ),
    streams_session(
        "fast_batch_errors",
        FAST,
        s(allow_batched=True),
        fast(2, 1),
        fast(1, 1),
        fast(1, 3),
        fast(2, 0),
        fast(0, 0),
        fast(1, 5),
        fast(1, 0, gap="x"),
        fast(1, 0, batch_id="b" * 65),
        expect(1, pub(b"s.a", b"x", b"f.$FI")),
        expect(1, pub(b"s.a", b"x", b"f.0.$FI")),
        fast(1, 0, Nats_Required_Api_Level="99"),
        fast(1, 0, Nats_Expected_Stream="T"),
        info("S"),
    ),
    streams_session("fast_batch_not_allowed", FAST, s(), fast(1, 0), info("S")),
    streams_session(
        "fast_batch_with_a_gap",
        FAST,
        s(allow_batched=True),
        fast(1, 0),
        fast(3, 1, 2),
        fast(1, 0, gap="ok"),
        fast(4, 1, 2, gap="ok"),
        fast(5, 1, 0, gap="ok"),
        fast(6, 2, gap="ok"),
        fast(1, 0),
        fast(1, 2, 2),
        info("S"),
    ),
    streams_session(
        "fast_batch_ping",
        FAST,
        s(allow_batched=True),
        fast(1, 4),
        fast(1, 0),
        fast(1, 4),
        fast(2, 1),
        fast(2, 4),
        fast(4, 4, 2),
        fast(1, 0, gap="ok"),
        fast(5, 4, 2, gap="ok"),
        fast(6, 2, 1, gap="ok"),
        info("S"),
    ),
    streams_session(
        "fast_batch_refusals",
        FAST,
        s(allow_batched=True),
        fast(1, 0),
        fast(2, 1, 2, Nats_Expected_Stream="T"),
        fast(1, 0, gap="ok"),
        fast(2, 1, 2, gap="ok", Nats_Expected_Stream="T"),
        fast(3, 2, gap="ok"),
        fast(1, 0, Nats_Msg_Id="x"),
        fast(2, 1, Nats_Msg_Id="x"),
        fast(3, 2, Nats_Msg_Id="x"),
        fast(1, 2, Nats_Msg_Id="x"),
        info("S"),
    ),
]


def schedule(pattern: str, messages: int = 1, *, target: str = "s.t", **values: Any) -> Step:
    """Publish a schedule to s.a; with 2 messages, also wait for what it publishes."""
    named = {"Nats_Schedule": pattern, "Nats_Schedule_Target": target, **values}
    return publish("s.a", b"later", messages, any_order=True, **named)


SCHEDULED = [
    streams_session(
        "schedule_errors",
        s(**SCHEDULES),
        schedule("@at 2099-01-01T00:00:00Z"),
        stored(1),
        schedule("@at x"),
        schedule("@at 2099-01-01"),
        schedule("@every 1h"),
        schedule("@every 10ms"),
        schedule("@every x"),
        schedule("@daily"),
        schedule("@never"),
        schedule("0 0 * * * *"),
        schedule("0 0 * * *"),
        schedule("60 * * * * *"),
        schedule("*/5 1-3,5 0 1 jan MON-fri"),
        schedule("0 0 0 30 2 *"),
        schedule("@daily", Nats_Schedule_Time_Zone="Europe/Berlin"),
        schedule("@daily", Nats_Schedule_Time_Zone="Nowhere/None"),
        schedule("@daily", Nats_Schedule_Time_Zone=""),
        schedule("@every 1h", Nats_Schedule_Time_Zone="UTC"),
        schedule("@at 2099-01-01T00:00:00Z", Nats_Schedule_Time_Zone="UTC"),
        schedule("@every 1h", target="s.a"),
        schedule("@every 1h", target="t.a"),
        schedule("@every 1h", target="s.*"),
        schedule("@every 1h", target=""),
        schedule("@every 1h", Nats_Schedule_Source="s.a"),
        schedule("@every 1h", Nats_Schedule_Source="s.t"),
        schedule("@every 1h", Nats_Schedule_Source="s.>"),
        schedule("@every 1h", Nats_Schedule_Source="t"),
        schedule("@every 1h", Nats_Schedule_Source="s.source"),
        schedule("@every 1h", Nats_Schedule_TTL="5m"),
        schedule("@every 1h", Nats_Schedule_TTL="x"),
        schedule("@every 1h", Nats_Schedule_Rollup="sub"),
        schedule("@every 1h", Nats_Schedule_Rollup="all"),
        schedule("@every 1h", Nats_Rollup="all"),
        schedule("@every 1h", Nats_Rollup="sub"),
        publish("s.a", Nats_Schedule=""),
        info("S"),
    ),
    streams_session(
        "schedules_not_allowed",
        s(),
        schedule("@every 1h"),
        schedule("@every x"),
        publish("s.b", Nats_Scheduler="s.a", Nats_Schedule_Next="purge"),
    ),
    streams_session(
        "schedule_is_cancelled",
        s(**SCHEDULES),
        schedule("@every 1h"),
        publish("s.plain"),
        publish("s.b", Nats_Scheduler="s.a"),
        publish("s.b", Nats_Schedule_Next="purge"),
        publish("s.b", Nats_Schedule_Next="2099-01-01T00:00:00Z", Nats_Scheduler="s.a"),
        publish("s.a", Nats_Schedule_Next="purge", Nats_Scheduler="s.a"),
        publish("s.b", Nats_Schedule_Next="purge", Nats_Scheduler="s.plain"),
        publish("s.b", Nats_Schedule_Next="purge", Nats_Scheduler="s.*"),
        publish("s.b", Nats_Schedule_Next="purge", Nats_Scheduler="s.none"),
        publish("s.b", Nats_Schedule_Next="purge", Nats_Scheduler="s.a"),
        info("S", {"subjects_filter": ">"}),
    ),
    streams_session(
        "schedule_fires_once",
        s(**SCHEDULES, allow_msg_ttl=True, republish={"src": "s.t", "dest": "out"}),
        send(b"SUB out 3\r\n"),
        schedule("@at 2001-01-01T00:00:00Z", 2, A="b", Nats_Msg_Id="x", Nats_Schedule_TTL="1h"),
        info("S", {"subjects_filter": ">"}),
    ),
    streams_session(
        "schedule_takes_its_content_from_elsewhere",
        s(**SCHEDULES, republish={"src": "s.t", "dest": "out"}),
        send(b"SUB out 3\r\n"),
        publish("s.source", b"content", C="d", Nats_Expected_Stream="S"),
        schedule("@at 2001-01-01T00:00:00Z", 2, Nats_Schedule_Source="s.source", Nats_Schedule_Rollup="sub"),
        info("S", {"subjects_filter": ">"}),
    ),
    streams_session(
        "schedules_in_a_batch",
        s(**SCHEDULES, allow_atomic=True),
        publish(
            "s.a",
            b"later",
            Nats_Batch_Id="b",
            Nats_Batch_Sequence=1,
            Nats_Schedule="@every 1h",
            Nats_Schedule_Target="s.t",
        ),
        batch(2, "s.b", Nats_Scheduler="s.a", Nats_Schedule_Next="purge", Nats_Batch_Commit="1"),
        info("S", {"subjects_filter": ">"}),
    ),
]

SUBJECTS = [
    streams_session(
        "republish",
        s(republish={"src": "s.*", "dest": "out.{{wildcard(1)}}"}),
        send(b"SUB out.> 3\r\n"),
        publish("s.a", b"1", 2, any_order=True),
        publish("s.a", b"2", 2, any_order=True, A="b"),
        publish("s.b.c", b"3"),
        publish("s.a", b"4", 2, any_order=True),
        publish("s.a", b"5", Nats_Expected_Stream="T"),
    ),
    streams_session(
        "republish_headers_only",
        s(republish={"src": ">", "dest": "out.>", "headers_only": True}),
        send(b"SUB out.> 3\r\n"),
        publish("s.a", b"12345", 2, any_order=True),
        publish("s.a", b"12345", 2, any_order=True, A="b"),
    ),
    streams_session(
        "transform",
        s(subject_transform={"src": "s.*", "dest": "t.{{wildcard(1)}}"}),
        publish("s.a"),
        publish("s.a.b"),
        publish("s.a", Nats_Expected_Last_Subject_Sequence=0),
        publish("s.a", Nats_Expected_Last_Subject_Sequence=1),
        stored(1),
        stored(2),
        info("S", {"subjects_filter": ">"}),
    ),
    streams_session(
        "transform_and_republish",
        s(subject_transform={"src": "s.*", "dest": "t.$1"}, republish={"src": "t.*", "dest": "out.$1"}),
        send(b"SUB out.> 3\r\n"),
        publish("s.a", b"1", 2, any_order=True),
    ),
]

SESSIONS: list[Session] = [
    *EXPECTATIONS,
    *LIMITS,
    *ROLLUPS,
    *TTLS,
    *COUNTERS,
    *BATCHES,
    *FAST_BATCHES,
    *SCHEDULED,
    *SUBJECTS,
]
