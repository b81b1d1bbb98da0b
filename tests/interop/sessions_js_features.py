"""What a stream can do besides storing, and the patterns that key-value and object stores put on the wire.

Transforms, republish, TTL, counters, atomic batches, schedules, mirrors and sources, advisories.
"""

from tests.interop.jetstream import (
    SECOND,
    ack,
    api,
    consumer,
    consumer_info,
    create,
    expect,
    info,
    message,
    publish,
    publish_all,
    pull,
    streams_session,
    until,
    update,
)
from tests.interop.session import Session, Step

SUBSCRIBED_TO_ADVISORIES = b"SUB $JS.EVENT.ADVISORY.> 9\r\n"

TRANSFORMS: list[Session] = [
    streams_session(
        "transform",
        create("S", subjects=["s.*.*"], subject_transform={"src": "s.*.*", "dest": "t.{{wildcard(2)}}.$1"}),
        publish("s.a.b"),
        api("STREAM.MSG.GET.S", {"seq": 1}),
        info("S", {"subjects_filter": ">"}),
    ),
    streams_session(
        "transform_partition",
        create(
            "S",
            subjects=["s.*"],
            subject_transform={"src": "s.*", "dest": "t.{{partition(5,1)}}.{{wildcard(1)}}"},
        ),
        publish_all("s.a", "s.b", "s.c", "s.d"),
        info("S", {"subjects_filter": ">"}),
    ),
    *(
        streams_session(
            f"transform_function_{name}",
            create("S", subjects=["s.>"], subject_transform={"src": source, "dest": destination}),
            publish("s.one-two.three"),
            publish("s.x"),
            info("S", {"subjects_filter": ">"}),
            waits=False,
        )
        for name, source, destination in (
            ("split", "s.*.*", "t.{{split(1,-)}}.{{wildcard(2)}}"),
            ("slice", "s.*.*", "t.{{slicefromleft(1,3)}}"),
            ("slice_from_right", "s.*.*", "t.{{SliceFromRight(1,3)}}"),
            ("left", "s.*.*", "t.{{left(1,2)}}"),
            ("right", "s.*.*", "t.{{right(1,2)}}.{{wildcard(2)}}"),
            ("split_from_left", "s.*.*", "t.{{SplitFromLeft(1,4)}}"),
            ("split_from_right", "s.*.*", "t.{{splitfromright(1,4)}}"),
            ("everything", "s.>", "t.>"),
            ("constant", "s.*.*", "t.constant"),
            ("unknown", "s.*.*", "t.{{nosuch(1)}}"),
            ("wildcard_out_of_range", "s.*.*", "t.{{wildcard(3)}}"),
            ("too_few_arguments", "s.*.*", "t.{{split(1)}}"),
            ("partition_of_everything", "s.*.*", "t.{{partition(10)}}"),
            ("random", "s.*.*", "t.{{random(1)}}"),
        )
    ),
    streams_session(
        "republish",
        create("S", subjects=["s.>"], republish={"src": "s.*", "dest": "t.{{wildcard(1)}}"}),
        b"SUB t.> 2\r\n",
        publish("s.a", b"first", messages=2, any_order=True),
        publish("s.a", b"second", messages=2, any_order=True, A="b"),
        publish("s.a.b"),
        publish("s.c", messages=2, any_order=True, Nats_Msg_Id="1"),
        publish("s.c", Nats_Msg_Id="1"),
    ),
    streams_session(
        "republish_headers_only",
        create("S", subjects=["s.>"], republish={"src": "s.>", "dest": "t.>", "headers_only": True}),
        b"SUB t.> 2\r\n",
        publish("s.a", b"first", messages=2, any_order=True),
        publish("s.b", b"", messages=2, any_order=True),
    ),
    streams_session(
        "republish_into_another_stream",
        create("S", subjects=["s.>"], republish={"src": "s.>", "dest": "t.>"}),
        create("T", subjects=["t.>"]),
        publish("s.a"),
        until("STREAM.INFO.T", None, b'"messages":1'),
        api("STREAM.MSG.GET.T", {"seq": 1}),
    ),
]

TTL: list[Session] = [
    streams_session("ttl_not_allowed", create("S", subjects=["s"]), publish("s", Nats_TTL="1s"), info("S")),
    streams_session(
        "ttl",
        create("S", subjects=["s.*"], allow_msg_ttl=True),
        publish("s.a", Nats_TTL="3"),
        publish("s.b", Nats_TTL="1h"),
        publish("s.c", Nats_TTL="never"),
        publish("s.d", Nats_TTL="0"),
        publish("s.e", Nats_TTL="500ms"),
        publish("s.f", Nats_TTL="-1s"),
        publish("s.g", Nats_TTL="soon"),
        publish("s.h", Nats_TTL=""),
        api("STREAM.MSG.GET.S", {"seq": 1}),
        info("S", {"subjects_filter": ">"}),
        until("STREAM.INFO.S", None, b'"first_seq":2'),
        info("S", {"subjects_filter": ">", "deleted_details": True}),
    ),
    streams_session(
        "delete_marker_on_max_age",
        create(
            "S",
            subjects=["s.*"],
            max_age=3 * SECOND,  # also of the marker, which must not expire before it is looked at
            allow_msg_ttl=True,
            subject_delete_marker_ttl=3600 * SECOND,
        ),
        publish("s.a"),
        until("STREAM.INFO.S", None, b'"first_seq":2', b'"last_seq":2'),
        info("S", {"subjects_filter": ">"}),
        api("STREAM.MSG.GET.S", {"last_by_subj": "s.a"}),
    ),
]

COUNTERS: list[Session] = [
    streams_session(
        "counter",
        create("S", subjects=["s.*"], allow_msg_counter=True, allow_direct=True),
        publish("s.a", b"", Nats_Incr="+5"),
        publish("s.a", b"", Nats_Incr="-7"),
        publish("s.b", b"", Nats_Incr="1"),
        publish("s.a", b"", Nats_Incr="100000000000000000000000000"),
        publish("s.a", b"", Nats_Incr="x"),
        publish("s.a", b"", Nats_Incr=""),
        publish("s.a", b"5"),
        publish("s.a", b"payload", Nats_Incr="1"),
        publish("s.a", b"", Nats_Incr="1", Nats_Rollup="sub"),
        publish("s.a", b"", Nats_Incr="+0"),
        api("STREAM.MSG.GET.S", {"last_by_subj": "s.a"}),
        api("DIRECT.GET.S.s.b"),
        info("S", {"subjects_filter": ">"}),
    ),
    streams_session(
        "counter_not_allowed", create("S", subjects=["s"]), publish("s", b"", Nats_Incr="1"), info("S")
    ),
    streams_session(
        "counter_with_message_id",
        create("S", subjects=["s"], allow_msg_counter=True),
        publish("s", b"", Nats_Incr="1", Nats_Msg_Id="1"),
        publish("s", b"", Nats_Incr="1", Nats_Msg_Id="1"),
        publish("s", b"", Nats_Incr="1", Nats_Expected_Last_Sequence="0"),
    ),
]


def batched(subject: str, batch: str, place: object, payload: bytes = b"x", **values: object) -> bytes:
    return message(subject, payload, Nats_Batch_Id=batch, Nats_Batch_Sequence=place, **values)


ATOMIC: list[Session] = [
    streams_session(
        "atomic_not_allowed", create("S", subjects=["s"]), expect(1, batched("s", "b", 1)), info("S")
    ),
    streams_session(
        "atomic_batch",
        create("S", subjects=["s.*"], allow_atomic=True),
        expect(1, batched("s.a", "b", 1)),
        expect(1, batched("s.b", "b", 2)),
        info("S"),
        expect(1, batched("s.c", "b", 3, Nats_Batch_Commit=1)),
        info("S", {"subjects_filter": ">"}),
        api("STREAM.MSG.GET.S", {"seq": 1}),
        api("STREAM.MSG.GET.S", {"seq": 3}),
    ),
    streams_session(
        "atomic_batch_of_one",
        create("S", subjects=["s.*"], allow_atomic=True),
        expect(1, batched("s.a", "b", 1, Nats_Batch_Commit=1)),
        info("S"),
    ),
    streams_session(
        "atomic_gap",
        create("S", subjects=["s.*"], allow_atomic=True),
        expect(1, batched("s.a", "b", 1)),
        expect(1, batched("s.a", "b", 3, Nats_Batch_Commit=1)),
        info("S"),
        expect(1, batched("s.a", "c", 2)),
        expect(1, batched("s.a", "c", "x")),
        expect(1, message("s.a", b"x", Nats_Batch_Id="d")),
        expect(1, batched("s.a", "e" * 65, 1)),
        expect(1, batched("s.a", "f", 1, Nats_Batch_Commit=0)),
        info("S"),
    ),
    streams_session(
        "atomic_expectations",
        create("S", subjects=["s.*"], allow_atomic=True),
        publish("s.a"),
        expect(1, batched("s.a", "b", 1, Nats_Expected_Last_Sequence=1)),
        expect(1, batched("s.a", "b", 2, Nats_Batch_Commit=1)),
        expect(1, batched("s.a", "c", 1, Nats_Expected_Last_Sequence=1)),
        expect(1, batched("s.a", "c", 2, Nats_Batch_Commit=1)),
        expect(1, batched("s.b", "d", 1, Nats_Expected_Last_Subject_Sequence=0)),
        expect(1, batched("s.a", "d", 2, Nats_Expected_Last_Subject_Sequence=3, Nats_Batch_Commit=1)),
        expect(1, batched("s.a", "e", 1)),
        expect(1, batched("s.a", "e", 2, Nats_Expected_Last_Sequence=9, Nats_Batch_Commit=1)),
        info("S"),
    ),
    streams_session(
        "atomic_duplicates",
        create("S", subjects=["s.*"], allow_atomic=True),
        publish("s.a", Nats_Msg_Id="1"),
        expect(1, batched("s.a", "b", 1, Nats_Msg_Id="2")),
        expect(1, batched("s.a", "b", 2, Nats_Msg_Id="1", Nats_Batch_Commit=1)),
        expect(1, batched("s.a", "c", 1, Nats_Msg_Id="3")),
        expect(1, batched("s.a", "c", 2, Nats_Msg_Id="3", Nats_Batch_Commit=1)),
        info("S"),
    ),
]

SCHEDULES: list[Session] = [
    streams_session(
        "schedule_refused",
        create("S", subjects=["s.>"], allow_msg_schedules=True),
        publish("s.a", Nats_Schedule="nonsense", Nats_Schedule_Target="s.b"),
        publish("s.a", Nats_Schedule="@at 2090-01-01T00:00:00Z"),
        publish("s.a", Nats_Schedule="@at 2090-01-01T00:00:00Z", Nats_Schedule_Target="elsewhere"),
        publish("s.a", Nats_Schedule="@at 2090-01-01T00:00:00Z", Nats_Schedule_Target="s.*"),
        publish("s.a", Nats_Schedule="@at 2090-01-01T00:00:00Z", Nats_Schedule_Target="s.a"),
        publish(
            "s.a",
            Nats_Schedule="@at 2090-01-01T00:00:00Z",
            Nats_Schedule_Target="s.b",
            Nats_Schedule_TTL="x",
        ),
        publish("s.a", Nats_Schedule="@at 2090-01-01T00:00:00Z", Nats_Schedule_Target="s.b"),
        publish("s.a", Nats_Schedule="@every 1h", Nats_Schedule_Target="s.b"),
        publish("s.a", Nats_Schedule="@every 1ms", Nats_Schedule_Target="s.b"),
        publish("s.a", Nats_Schedule="@hourly", Nats_Schedule_Target="s.b"),
        publish("s.a", Nats_Schedule="0 0 * * * *", Nats_Schedule_Target="s.b"),
        info("S", {"subjects_filter": ">"}),
    ),
    streams_session(
        "schedule_not_allowed",
        create("S", subjects=["s.>"]),
        publish("s.a", Nats_Schedule="@at 2090-01-01T00:00:00Z", Nats_Schedule_Target="s.b"),
        info("S"),
    ),
    streams_session(
        "schedule_in_the_past_is_sent",
        create("S", subjects=["s.>"], allow_msg_schedules=True),
        publish("s.a", b"body", Nats_Schedule="@at 2020-01-01T00:00:00Z", Nats_Schedule_Target="s.b", A="b"),
        until("STREAM.MSG.GET.S", {"last_by_subj": "s.b"}, b'"message"'),
        info("S", {"subjects_filter": ">"}),
        api("STREAM.MSG.GET.S", {"last_by_subj": "s.b"}),
    ),
]


def _copied(stream: str, messages: int) -> Step:
    """Wait until a mirror, or a stream with sources, has this many messages."""
    return until(f"STREAM.INFO.{stream}", None, b'"messages":%d,' % messages, b'"lag":0')


COPIES: list[Session] = [
    streams_session(
        "mirror",
        create("S", subjects=["s.*"]),
        publish_all("s.a", "s.b", "s.a"),
        create("M", mirror={"name": "S"}),
        _copied("M", 3),
        info("M", {"subjects_filter": ">"}),
        publish("s.c"),
        _copied("M", 4),
        api("STREAM.MSG.GET.M", {"seq": 4}),
        info("M"),
        update("M", mirror={"name": "T"}),
        update("M", subjects=["x"], mirror={"name": "S"}),
        api("STREAM.MSG.DELETE.M", {"seq": 1}),
        info("M"),
    ),
    streams_session(
        "mirror_filtered",
        create("S", subjects=["s.*"]),
        publish_all("s.a", "s.b", "s.a"),
        create("M", mirror={"name": "S", "filter_subject": "s.a"}),
        create("N", mirror={"name": "S", "opt_start_seq": 2}),
        create(
            "O", mirror={"name": "S", "subject_transforms": [{"src": "s.*", "dest": "o.{{wildcard(1)}}"}]}
        ),
        _copied("M", 2),
        _copied("N", 2),
        _copied("O", 3),
        info("M", {"subjects_filter": ">", "deleted_details": True}),
        info("N", {"subjects_filter": ">"}),
        info("O", {"subjects_filter": ">"}),
    ),
    streams_session(
        "mirror_promoted",
        create("S", subjects=["s.*"]),
        publish_all("s.a", "s.b"),
        create("M", mirror={"name": "S"}),
        _copied("M", 2),
        update("M", subjects=["m"]),
        publish("m"),
        info("M"),
    ),
    streams_session(
        "sources",
        create("A", subjects=["a.*"]),
        create("B", subjects=["b.*"]),
        publish_all("a.1", "a.2"),
        create("C", subjects=["c.*"], sources=[{"name": "A"}]),
        _copied("C", 2),
        publish("c.x"),
        info("C", {"subjects_filter": ">"}),
        api("STREAM.MSG.GET.C", {"seq": 1}),
        api("STREAM.MSG.GET.C", {"seq": 2}),
        update("C", subjects=["c.*"], sources=[{"name": "A"}, {"name": "B", "filter_subject": "b.1"}]),
        publish_all("b.1", "b.2"),
        _copied("C", 4),
        info("C", {"subjects_filter": ">"}),
    ),
    streams_session(
        "sources_transformed",
        create("A", subjects=["a.*"]),
        publish("a.1", A="b"),
        create(
            "C", sources=[{"name": "A", "subject_transforms": [{"src": "a.*", "dest": "c.{{wildcard(1)}}"}]}]
        ),
        _copied("C", 1),
        api("STREAM.MSG.GET.C", {"seq": 1}),
        info("C", {"subjects_filter": ">"}),
    ),
]

ADVISORIES: list[Session] = [
    streams_session(
        "advisories_of_streams",
        SUBSCRIBED_TO_ADVISORIES,
        create("S", subjects=["s"], messages=3, any_order=True),
        api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s"], "max_msgs": 5}, 3, any_order=True),
        api("STREAM.DELETE.S", None, 3, any_order=True),
        api("STREAM.DELETE.S", None, 2, any_order=True),
    ),
    streams_session(
        "advisories_of_consumers",
        SUBSCRIBED_TO_ADVISORIES,
        create("S", subjects=["s"], messages=3, any_order=True),
        consumer("S", "c", messages=3),
        api("CONSUMER.PAUSE.S.c", {"pause_until": "2090-01-01T00:00:00Z"}, 3, any_order=True),
        api("CONSUMER.PAUSE.S.c", {}, 3, any_order=True),
        api("CONSUMER.DELETE.S.c", None, 3, any_order=True),
    ),
    streams_session(
        "advisories_of_delivery",
        create("S", subjects=["s"]),
        publish_all("s", "s", "s"),
        consumer("S", "c", max_deliver=1, ack_wait=SECOND),
        b"SUB $JS.EVENT.ADVISORY.CONSUMER.> 9\r\nSUB $JS.EVENT.METRIC.> 8\r\n",
        pull("S", "c", 3, {"batch": 3}),
        ack("S", "c", 1, 1, b"-NAK", messages=2, double=True),
        ack("S", "c", 2, 2, b"+TERM because", messages=2, double=True),
        expect(1),
        consumer_info("S", "c"),
    ),
    streams_session(
        "metrics_of_acks",
        create("S", subjects=["s"]),
        publish("s"),
        consumer("S", "c", sample_freq="100"),
        b"SUB $JS.EVENT.METRIC.> 8\r\n",
        pull("S", "c", 1, {"batch": 1}),
        ack("S", "c", 1, 1, messages=2, double=True),
    ),
]

KEY_VALUE = create(
    "KV_bucket",
    subjects=["$KV.bucket.>"],
    max_msgs_per_subject=3,
    discard="new",
    allow_rollup_hdrs=True,
    deny_delete=True,
    allow_direct=True,
    max_msgs=-1,
)
PATTERNS: list[Session] = [
    streams_session(
        "key_value",
        KEY_VALUE,
        publish("$KV.bucket.key", b"one"),
        publish("$KV.bucket.key", b"two", Nats_Expected_Last_Subject_Sequence=1),
        publish("$KV.bucket.key", b"two", Nats_Expected_Last_Subject_Sequence=1),
        api("DIRECT.GET.KV_bucket.$KV.bucket.key"),
        api("DIRECT.GET.KV_bucket.$KV.bucket.none"),
        publish("$KV.bucket.key", b"", KV_Operation="DEL"),
        api("DIRECT.GET.KV_bucket.$KV.bucket.key"),
        publish("$KV.bucket.key", b"", KV_Operation="PURGE", Nats_Rollup="sub"),
        info("KV_bucket", {"subjects_filter": ">"}),
        api("STREAM.MSG.DELETE.KV_bucket", {"seq": 1}),
        api("STREAM.PURGE.KV_bucket", {"filter": "$KV.bucket.key"}),
    ),
    streams_session(
        "key_value_watch",
        KEY_VALUE,
        publish_all("$KV.bucket.a", "$KV.bucket.b", "$KV.bucket.a"),
        b"SUB d 2\r\n",
        consumer(
            "KV_bucket",
            "watch",
            durable_name=None,
            deliver_subject="d",
            deliver_policy="last_per_subject",
            filter_subject="$KV.bucket.>",
            ack_policy="none",
            max_deliver=1,
            flow_control=True,
            idle_heartbeat=5 * SECOND,
            mem_storage=True,
            num_replicas=1,
            messages=3,
        ),
        publish("$KV.bucket.c", messages=2, any_order=True),
    ),
    streams_session(
        "object_store",
        create(
            "OBJ_files",
            subjects=["$O.files.C.>", "$O.files.M.>"],
            discard="new",
            allow_rollup_hdrs=True,
            allow_direct=True,
        ),
        publish("$O.files.C.nuid", b"chunk1"),
        publish("$O.files.C.nuid", b"chunk2"),
        publish("$O.files.M.bmFtZQ==", b'{"name":"name"}', Nats_Rollup="sub"),
        publish("$O.files.M.bmFtZQ==", b'{"name":"name","size":12}', Nats_Rollup="sub"),
        api("STREAM.MSG.GET.OBJ_files", {"last_by_subj": "$O.files.M.bmFtZQ=="}),
        consumer("OBJ_files", "read", durable_name=None, filter_subject="$O.files.C.nuid", ack_policy="none"),
        pull("OBJ_files", "read", 3, {"batch": 5, "no_wait": True}),
        api("STREAM.PURGE.OBJ_files", {"filter": "$O.files.C.nuid"}),
        info("OBJ_files", {"subjects_filter": ">"}),
    ),
]

SESSIONS: list[Session] = TRANSFORMS + TTL + COUNTERS + ATOMIC + SCHEDULES + COPIES + ADVISORIES + PATTERNS
