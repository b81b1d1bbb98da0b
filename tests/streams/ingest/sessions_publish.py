"""Sessions about one publish: expectations, duplicates, limits, rollups, TTLs, counters, transforms."""

from __future__ import annotations

from tests.interop import settings
from tests.interop.jetstream import SECOND, expect, info, message, publish, streams_session
from tests.interop.jetstream import update as change
from tests.interop.session import Session, hpub, send
from tests.streams.ingest.steps import batch, s, stored

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
                "-1",
                "-5s",
                "x",
                "1.5h30m",
                "1d",
                "",
            )
        ],
        info("S"),
        publish("s.a", Nats_TTL="1s"),  # it may be gone at once
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

SESSIONS: list[Session] = [*EXPECTATIONS, *LIMITS, *ROLLUPS, *TTLS, *COUNTERS, *SUBJECTS]
