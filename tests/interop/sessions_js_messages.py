"""Publishing to streams and reading them without a consumer.

Acknowledgements, expectations, duplicates, limits, message get and delete, direct get, rollup.
"""

from typing import Any

from tests.interop import settings
from tests.interop.jetstream import (
    SECOND,
    api,
    create,
    expect,
    info,
    message,
    publish,
    publish_all,
    streams_session,
    until,
    update,
)
from tests.interop.session import Session, Step, hpub, pub, send

STREAM = create("S", subjects=["s.>"])


def direct(stream: str, body: Any = None, messages: int = 1, subject: str = "") -> Step:
    """Direct get; what comes back are messages, not JSON."""
    verb = f"DIRECT.GET.{stream}" + (f".{subject}" if subject else "")
    return api(verb, body, messages)


PUBLISH: list[Session] = [
    streams_session(
        "publish", STREAM, publish("s.a"), publish("s.b", b""), publish("s.c", b"y" * 500), info("S")
    ),
    streams_session(
        "publish_without_reply",
        STREAM,
        pub(b"s.a", b"x"),
        publish("s.a"),
        info("S", {"subjects_filter": ">"}),
    ),
    streams_session("publish_nowhere", publish("nobody"), STREAM, publish("s")),
    streams_session(
        "publish_in_one_write",
        STREAM,
        expect(20, b"".join(message("s.x", b"%d" % number) for number in range(20))),
        info("S"),
    ),
    streams_session(
        "publish_is_delivered_to_subscribers_too",
        STREAM,
        b"SUB s.> 2\r\n",
        publish("s.a", messages=2, any_order=True),
        publish("s.a", messages=2, any_order=True, Some_Header="value"),
    ),
    streams_session(
        "publish_with_no_ack",
        create("S", subjects=["s"], no_ack=True),
        send(message("s")),
        send(message("s")),
        until("STREAM.INFO.S", None, b'"messages":2'),
        info("S"),
    ),
    streams_session(
        "publish_too_large",
        create("S", subjects=["s"], max_msg_size=10),
        publish("s", b"0123456789"),
        publish("s", b"0123456789x"),
        publish("s", b"01", Header="v"),
        info("S"),
    ),
    streams_session(
        "publish_headers_are_kept",
        STREAM,
        publish("s.a", A="1", B="2"),
        expect(1, hpub(b"s.a", b"NATS/1.0\r\nA: 1\r\nA: 2\r\na:3\r\n\r\n", b"x", b"r")),
        expect(1, hpub(b"s.a", b"NATS/1.0\r\n\r\n", b"x", b"r")),
        api("STREAM.MSG.GET.S", {"seq": 1}),
        api("STREAM.MSG.GET.S", {"seq": 2}),
        api("STREAM.MSG.GET.S", {"seq": 3}),
        info("S"),
    ),
    streams_session(
        "publish_to_two_streams_of_one_prefix",
        create("A", subjects=["a.*"]),
        create("B", subjects=["b.*"]),
        publish("a.x"),
        publish("b.x"),
        publish("a.x"),
        info("B"),
    ),
    streams_session(
        "publish_into_a_full_memory",
        create("M", subjects=["m"], storage="memory"),
        publish("m", b"x" * 4000),
        publish("m", b"x" * 4000),
        publish("m", b"x" * 4000),
        info("M"),
        settings=settings.JETSTREAM_SMALL,
    ),
]

EXPECTATIONS: list[Session] = [
    streams_session(
        "expect_stream",
        STREAM,
        publish("s.a", Nats_Expected_Stream="S"),
        publish("s.a", Nats_Expected_Stream="T"),
        info("S"),
    ),
    streams_session(
        "expect_last_sequence",
        STREAM,
        publish("s.a", Nats_Expected_Last_Sequence=0),
        publish("s.a", Nats_Expected_Last_Sequence=1),
        publish("s.a", Nats_Expected_Last_Sequence=1),
        publish("s.a", Nats_Expected_Last_Sequence="x"),
        publish("s.a", Nats_Expected_Last_Sequence=-1),
        publish("s.a", Nats_Expected_Last_Sequence=""),
        info("S"),
    ),
    streams_session(
        "expect_last_subject_sequence",
        STREAM,
        publish("s.a", Nats_Expected_Last_Subject_Sequence=0),
        publish("s.b", Nats_Expected_Last_Subject_Sequence=0),
        publish("s.a", Nats_Expected_Last_Subject_Sequence=1),
        publish("s.a", Nats_Expected_Last_Subject_Sequence=1),
        publish("s.b", Nats_Expected_Last_Subject_Sequence="x"),
        info("S"),
    ),
    streams_session(
        "expect_last_subject_sequence_of_another_subject",
        STREAM,
        publish_all("s.a", "s.b"),
        publish(
            "s.c",
            Nats_Expected_Last_Subject_Sequence=2,
            Nats_Expected_Last_Subject_Sequence_Subject="s.*",
        ),
        publish(
            "s.c",
            Nats_Expected_Last_Subject_Sequence=2,
            Nats_Expected_Last_Subject_Sequence_Subject="s.b",
        ),
        publish("s.c", Nats_Expected_Last_Subject_Sequence_Subject="s.b"),
        info("S"),
    ),
    streams_session(
        "expect_last_message_id",
        STREAM,
        publish("s.a", Nats_Expected_Last_Msg_Id="1"),
        publish("s.a", Nats_Msg_Id="1"),
        publish("s.a", Nats_Expected_Last_Msg_Id="1", Nats_Msg_Id="2"),
        publish("s.a", Nats_Expected_Last_Msg_Id="1"),
        publish("s.a", Nats_Expected_Last_Msg_Id="2"),
        info("S"),
    ),
    streams_session(
        "expect_several",
        STREAM,
        publish("s.a", Nats_Expected_Stream="S", Nats_Expected_Last_Sequence=0, Nats_Msg_Id="1"),
        publish("s.a", Nats_Expected_Stream="S", Nats_Expected_Last_Sequence=0, Nats_Msg_Id="1"),
        publish("s.a", Nats_Expected_Stream="T", Nats_Expected_Last_Sequence=0),
        publish("s.a", Nats_Required_Api_Level=5),
        publish("s.a", Nats_Required_Api_Level=6),
        publish("s.a", Nats_Required_Api_Level="x"),
    ),
    streams_session(
        "duplicates",
        STREAM,
        publish("s.a", Nats_Msg_Id="1"),
        publish("s.a", Nats_Msg_Id="1"),
        publish("s.b", Nats_Msg_Id="1"),
        publish("s.a", Nats_Msg_Id="2"),
        publish("s.a", Nats_Msg_Id=""),
        publish("s.a", Nats_Msg_Id=""),
        api("STREAM.MSG.DELETE.S", {"seq": 1}),
        publish("s.a", Nats_Msg_Id="1"),
        api("STREAM.PURGE.S"),
        publish("s.a", Nats_Msg_Id="2"),
        info("S"),
    ),
    streams_session(
        "duplicates_of_a_refused_message",
        create("S", subjects=["s"], max_msg_size=5),
        publish("s", b"123456", Nats_Msg_Id="1"),
        publish("s", b"1", Nats_Msg_Id="1"),
        publish("s", b"1", Nats_Msg_Id="1"),
    ),
]

LIMITS: list[Session] = [
    streams_session(
        "limit_messages_discard_old",
        create("S", subjects=["s.*"], max_msgs=3),
        publish_all("s.a", "s.b", "s.c", "s.d", "s.e"),
        info("S", {"subjects_filter": ">"}),
    ),
    streams_session(
        "limit_messages_discard_new",
        create("S", subjects=["s"], max_msgs=2, discard="new"),
        publish_all("s", "s", "s"),
        api("STREAM.MSG.DELETE.S", {"seq": 1}),
        publish("s"),
        info("S"),
    ),
    streams_session(
        "limit_bytes_discard_old",
        create("S", subjects=["s"], max_bytes=200),
        *(publish("s", b"x" * 50) for _ in range(4)),
        info("S"),
        publish("s", b"x" * 300),
        info("S"),
    ),
    streams_session(
        "limit_bytes_discard_new",
        create("S", subjects=["s"], max_bytes=200, discard="new"),
        *(publish("s", b"x" * 50) for _ in range(4)),
        info("S"),
    ),
    streams_session(
        "limit_bytes_in_memory",
        create("S", subjects=["s"], max_bytes=200, storage="memory"),
        *(publish("s", b"x" * 50, A="b") for _ in range(4)),
        info("S"),
    ),
    streams_session(
        "limit_per_subject",
        create("S", subjects=["s.*"], max_msgs_per_subject=2),
        publish_all("s.a", "s.b", "s.a", "s.a", "s.a", "s.b"),
        info("S", {"subjects_filter": ">", "deleted_details": True}),
    ),
    streams_session(
        "limit_per_subject_discard_new",
        create("S", subjects=["s.*"], max_msgs_per_subject=1, discard="new", discard_new_per_subject=True),
        publish_all("s.a", "s.b", "s.a"),
        api("STREAM.PURGE.S", {"filter": "s.a"}),
        publish("s.a"),
        info("S"),
    ),
    streams_session(
        "limit_per_subject_and_messages_discard_new",
        create("S", subjects=["s.*"], max_msgs=2, max_msgs_per_subject=1, discard="new"),
        publish_all("s.a", "s.b", "s.a", "s.c"),
        info("S", {"subjects_filter": ">"}),
    ),
    streams_session(
        "limit_raised_and_lowered",
        create("S", subjects=["s"], max_msgs=2),
        publish_all("s", "s", "s"),
        update("S", subjects=["s"], max_msgs=5),
        publish_all("s", "s"),
        info("S"),
        update("S", subjects=["s"], max_msgs=1),
        info("S"),
    ),
]

GET: list[Session] = [
    streams_session(
        "get",
        STREAM,
        publish_all("s.a", "s.b", "s.a"),
        *(
            api("STREAM.MSG.GET.S", body)
            for body in (
                {"seq": 1},
                {"seq": 4},
                {"seq": 0},
                {"last_by_subj": "s.a"},
                {"last_by_subj": "s.*"},
                {"last_by_subj": "none"},
                {"last_by_subj": "s.a", "seq": 1},
                {"next_by_subj": "s.a"},
                {"seq": 2, "next_by_subj": "s.a"},
                {"seq": 2, "next_by_subj": "s.*"},
                {"seq": 9, "next_by_subj": "s.a"},
                {"last_by_subj": "s.a", "next_by_subj": "s.b"},
                {},
                b"",
                b"{",
                {"seq": -1},
                {"seq": "1"},
            )
        ),
        api("STREAM.MSG.GET.NONE", {"seq": 1}),
    ),
    streams_session(
        "get_by_time",
        STREAM,
        publish_all("s.a", "s.b"),
        api("STREAM.MSG.GET.S", {"start_time": "2020-01-01T00:00:00Z"}),
        api("STREAM.MSG.GET.S", {"start_time": "2020-01-01T00:00:00Z", "next_by_subj": "s.b"}),
        api("STREAM.MSG.GET.S", {"start_time": "2090-01-01T00:00:00Z"}),
        api("STREAM.MSG.GET.S", {"start_time": "2020-01-01T00:00:00Z", "seq": 1}),
        api("STREAM.MSG.GET.S", {"start_time": "yesterday"}),
    ),
    streams_session(
        "get_with_headers_and_binary",
        STREAM,
        publish("s.a", bytes(range(256)), A="b"),
        publish("s.a", b""),
        api("STREAM.MSG.GET.S", {"seq": 1}),
        api("STREAM.MSG.GET.S", {"seq": 2}),
        api("STREAM.MSG.GET.S", {"seq": 1, "no_hdr": True}),
    ),
    streams_session(
        "delete_message",
        STREAM,
        publish_all("s.a", "s.b", "s.c", "s.d"),
        api("STREAM.MSG.DELETE.S", {"seq": 2}),
        api("STREAM.MSG.DELETE.S", {"seq": 2}),
        api("STREAM.MSG.DELETE.S", {"seq": 9}),
        api("STREAM.MSG.DELETE.S", {"seq": 0}),
        api("STREAM.MSG.DELETE.S", {"seq": 3, "no_erase": True}),
        api("STREAM.MSG.GET.S", {"seq": 3}),
        info("S", {"deleted_details": True}),
        api("STREAM.MSG.DELETE.S", {"seq": 1}),
        info("S", {"deleted_details": True}),
        api("STREAM.MSG.DELETE.S", {"seq": 4}),
        info("S", {"deleted_details": True}),
        publish("s.a"),
        api("STREAM.MSG.DELETE.S"),
        api("STREAM.MSG.DELETE.S", b"{"),
        api("STREAM.MSG.DELETE.NONE", {"seq": 1}),
        info("S"),
    ),
    streams_session(
        "delete_message_denied",
        create("S", subjects=["s"], deny_delete=True),
        publish("s"),
        api("STREAM.MSG.DELETE.S", {"seq": 1}),
        info("S"),
    ),
]

DIRECT_STREAM = create("S", subjects=["s.>"], allow_direct=True)
DIRECT: list[Session] = [
    streams_session("direct_get_not_allowed", STREAM, publish("s.a"), direct("S", {"seq": 1})),
    streams_session(
        "direct_get",
        DIRECT_STREAM,
        publish_all("s.a", "s.b", "s.a"),
        publish("s.c", b"with headers", A="b"),
        *(
            direct("S", body)
            for body in (
                {"seq": 1},
                {"seq": 4},
                {"seq": 9},
                {"seq": 0},
                {"last_by_subj": "s.a"},
                {"last_by_subj": "s.*"},
                {"last_by_subj": "none"},
                {"seq": 2, "next_by_subj": "s.a"},
                {"next_by_subj": "s.b"},
                {"seq": 4, "next_by_subj": "s.b"},
                {"seq": 4, "no_hdr": True},
                {"seq": 1, "last_by_subj": "s.a"},
                {},
                b"",
                b"{",
                {"start_time": "2020-01-01T00:00:00Z"},
                {"start_time": "2090-01-01T00:00:00Z"},
            )
        ),
    ),
    streams_session(
        "direct_get_by_subject",
        DIRECT_STREAM,
        publish_all("s.a", "s.b.c", "s.a"),
        direct("S", subject="s.a"),
        direct("S", subject="s.b.c"),
        direct("S", subject="s.none"),
        direct("S", subject="s.*"),
        direct("S", {"seq": 1}, subject="s.a"),
    ),
    streams_session(
        "direct_get_batch",
        DIRECT_STREAM,
        publish_all("s.a", "s.b", "s.a", "s.b", "s.c"),
        direct("S", {"batch": 2, "seq": 1}, 3),
        direct("S", {"batch": 10, "seq": 4}, 3),
        direct("S", {"batch": 3, "next_by_subj": "s.a"}, 3),
        direct("S", {"batch": 3, "seq": 2, "next_by_subj": "s.b"}, 3),
        direct("S", {"batch": 2, "start_time": "2020-01-01T00:00:00Z"}, 3),
        direct("S", {"batch": 3, "seq": 9}),
        direct("S", {"batch": 2, "max_bytes": 1, "seq": 1}, 2),
        direct("S", {"batch": -1, "seq": 1}),
        direct("S", {"batch": 2, "last_by_subj": "s.a"}, 1),
    ),
    streams_session(
        "direct_get_last_of_many",
        DIRECT_STREAM,
        publish_all("s.a", "s.b", "s.a", "s.b", "s.c"),
        direct("S", {"multi_last": ["s.a", "s.b"]}, 3),
        direct("S", {"multi_last": ["s.*"]}, 4),
        direct("S", {"multi_last": ["s.*"], "batch": 2}, 3),
        direct("S", {"multi_last": ["s.*"], "up_to_seq": 3}, 3),
        direct("S", {"multi_last": ["none"]}),
        direct("S", {"multi_last": ["s.a"], "seq": 1}, 2),
        direct("S", {"multi_last": ["s.a"], "last_by_subj": "s.a"}, 1),
        direct("S", {"multi_last": ["s.*"], "up_to_time": "2090-01-01T00:00:00Z"}, 4),
        direct("S", {"multi_last": ["s.*"], "up_to_seq": 1, "up_to_time": "2090-01-01T00:00:00Z"}, 1),
    ),
]

ROLLUP: list[Session] = [
    streams_session(
        "rollup",
        create("S", subjects=["s.*"], allow_rollup_hdrs=True),
        publish_all("s.a", "s.b", "s.a"),
        publish("s.a", b"sum", Nats_Rollup="sub"),
        info("S", {"subjects_filter": ">", "deleted_details": True}),
        publish("s.c", b"all", Nats_Rollup="all"),
        info("S", {"subjects_filter": ">"}),
        publish("s.a", Nats_Rollup="SUB"),
        publish("s.a", Nats_Rollup="some"),
        publish("s.a", Nats_Rollup=""),
        info("S", {"subjects_filter": ">"}),
    ),
    streams_session("rollup_not_allowed", STREAM, publish("s.a", Nats_Rollup="sub"), info("S")),
    streams_session(
        "rollup_with_expectation",
        create("S", subjects=["s.*"], allow_rollup_hdrs=True),
        publish_all("s.a", "s.a"),
        publish("s.a", Nats_Rollup="sub", Nats_Expected_Last_Subject_Sequence=1),
        publish("s.a", Nats_Rollup="sub", Nats_Expected_Last_Subject_Sequence=2, Nats_Msg_Id="1"),
        publish("s.a", Nats_Rollup="sub", Nats_Msg_Id="1"),
        info("S"),
    ),
    streams_session(
        "max_age",
        create("S", subjects=["s"], max_age=SECOND // 10),
        publish("s"),
        until("STREAM.INFO.S", None, b'"messages":0'),
        info("S"),
    ),
]

SESSIONS: list[Session] = PUBLISH + EXPECTATIONS + LIMITS + GET + DIRECT + ROLLUP
