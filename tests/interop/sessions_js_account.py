"""A server with one account of its own: its name, its limits, and what happens when they are reached."""

from tests.interop import settings
from tests.interop.jetstream import (
    api,
    consumer,
    create,
    expect,
    info,
    publish,
    pull,
    streams_session,
    update,
)
from tests.interop.session import Session, Step, connect, pub, send, session

LIMITED = settings.JETSTREAM_ONE_ACCOUNT
TIGHT = settings.JETSTREAM_TIGHT_ACCOUNT


def limited(name: str, *steps: Step | bytes) -> Session:
    return streams_session(f"account_{name}", *steps, settings=LIMITED)


def tight(name: str, *steps: Step | bytes) -> Session:
    return streams_session(f"account_{name}", *steps, settings=TIGHT)


PLAIN: list[Session] = [
    *(
        session(f"js_account_info_line_{name}", step, b"PING\r\n", settings=LIMITED, whole_info=True)
        for name, step in (
            ("guest", connect(protocol=1)),
            ("user", connect(protocol=1, user="boss", **{"pass": "word"})),
            ("stranger", connect(protocol=1, user="nobody", **{"pass": "word"})),
        )
    ),
    session(
        "js_account_users_meet",
        connect(),
        b"SUB foo 1\r\n",
        send(connect(user="boss", **{"pass": "word"}).data + pub(b"foo", b"hi"), "b"),
        settings=LIMITED,
    ),
]

STREAMS: list[Session] = [
    limited(
        "info_shows_limits",
        api("INFO"),
        create("S", subjects=["s"], max_bytes=100),
        publish("s"),
        api("INFO"),
    ),
    limited(
        "info_counts",
        create("S", subjects=["s"], max_bytes=1000),
        create("M", subjects=["m"], max_bytes=500, storage="memory"),
        publish("s"),
        publish("m"),
        consumer("S", "c"),
        api("INFO"),
        expect(1, pub(b"$JS.hub.API.INFO", b"", b"r")),
    ),
    limited(
        "max_bytes_required",
        create("S", subjects=["s"]),
        create("S", subjects=["s"], max_bytes=0),
        create("S", subjects=["s"], max_bytes=-1, storage="memory"),
        create("S", subjects=["s"], max_bytes=1),
        update("S", subjects=["s"]),
        update("S", subjects=["s"], max_bytes=-1),
        info("S"),
    ),
    limited(
        "max_stream_bytes",
        create("S", subjects=["s"], max_bytes=4097),
        create("S", subjects=["s"], max_bytes=4096),
        create("M", subjects=["m"], max_bytes=2049, storage="memory"),
        create("M", subjects=["m"], max_bytes=2048, storage="memory"),
        update("S", subjects=["s"], max_bytes=4097),
        update("M", subjects=["m"], max_bytes=2049, storage="memory"),
        update("M", subjects=["m"], max_bytes=10, storage="memory"),
        api("INFO"),
    ),
    limited(
        "reservations",
        create("S", subjects=["s"], max_bytes=4000),
        create("T", subjects=["t"], max_bytes=4000),
        create("U", subjects=["u"], max_bytes=2001),
        create("U", subjects=["u"], max_bytes=2000),
        update("U", subjects=["u"], max_bytes=2001),
        update("S", subjects=["s"], max_bytes=3999),
        update("U", subjects=["u"], max_bytes=2001),
        api("INFO"),
    ),
    limited(
        "max_streams",
        *(create(name, subjects=[name.lower()], max_bytes=100) for name in "STUV"),
        create("S", subjects=["s"], max_bytes=100),
        create("S", subjects=["s"], max_bytes=200),
        api("STREAM.DELETE.T"),
        create("V", subjects=["v"], max_bytes=100),
        api("STREAM.NAMES"),
    ),
    limited(
        "max_consumers",
        create("S", subjects=["s"], max_bytes=100, max_consumers=3),
        create("S", subjects=["s"], max_bytes=100, max_consumers=2),
        update("S", subjects=["s"], max_bytes=100, max_consumers=3),
        update("S", subjects=["s"], max_bytes=100, max_consumers=-1),
        consumer("S", "a"),
        consumer("S", "b"),
        consumer("S", "c"),
        consumer("S", "a"),
        create("T", subjects=["t"], max_bytes=100),
        consumer("T", "a"),
        api("INFO"),
    ),
    limited(
        "max_ack_pending",
        create("S", subjects=["s"], max_bytes=100),
        consumer("S", "a"),
        consumer("S", "b", max_ack_pending=100),
        consumer("S", "b", max_ack_pending=101),
        consumer("S", "c", max_ack_pending=101),
        consumer("S", "c", max_ack_pending=-1),
    ),
    limited(
        "old_messages_make_room",
        create("S", subjects=["s"], max_bytes=128),
        publish("s", b"A" * 55),
        *(publish("s", b"A") for _ in range(5)),
        info("S"),
        api("INFO"),
    ),
    limited(
        "advisories",
        b"SUB $JS.EVENT.ADVISORY.> 9\r\n",
        create("S", messages=3, any_order=True, subjects=["s"], max_bytes=1000),
        create("S", messages=2, any_order=True, subjects=["s"]),
    ),
    limited(
        "pinned_advisory",
        b"SUB $JS.EVENT.ADVISORY.CONSUMER.PINNED.> 9\r\n",
        create("S", subjects=["s"], max_bytes=1000),
        consumer("S", "c", priority_policy="pinned_client", priority_groups=["A"]),
        publish("s"),
        expect(
            2,
            pub(b"$JS.API.CONSUMER.MSG.NEXT.S.c", b'{"batch":1,"group":"A","expires":600000000000}', b"r"),
            any_order=True,
        ),
    ),
    tight(
        "storage_used_up",
        create("S", subjects=["s"]),
        publish("s", b"x" * 200),
        publish("s", b"x" * 200),
        publish("s", b"x" * 200),
        publish("s", b"x" * 7),
        publish("s", b"x" * 8, Nats_Msg_Id="a"),
        publish("s", b"x"),
        info("S"),
        api("INFO"),
        api("STREAM.PURGE.S"),
        publish("s", b"x" * 200),
        api("INFO"),
    ),
    tight(
        "memory_used_up",
        create("M", subjects=["m"], storage="memory"),
        publish("m", b"x" * 200),
        publish("m", b"x" * 67),
        publish("m", b"x" * 65),
        create("S", subjects=["s"]),
        publish("s", b"x" * 65),
        create("N", subjects=["n"], storage="memory"),
        publish("n"),
        api("STREAM.DELETE.M"),
        publish("n"),
        api("INFO"),
    ),
    tight(
        "full_stream_of_full_account",
        create("S", subjects=["s"], max_bytes=500),
        *(publish("s", b"x" * 100) for _ in range(5)),
        info("S"),
        create("T", subjects=["t"]),
        create("T", subjects=["t"], max_bytes=1),
        create("M", subjects=["m"], storage="memory", max_bytes=301),
        api("INFO"),
    ),
    tight(
        "batch_too_big",
        create("S", subjects=["s"], allow_atomic=True),
        publish("s", b"x" * 400),
        publish("s", b"x" * 200, Nats_Batch_Id="b", Nats_Batch_Sequence="1"),
        publish("s", b"x", Nats_Batch_Id="c", Nats_Batch_Sequence="1", Nats_Batch_Commit="1"),
        info("S"),
    ),
    streams_session(
        "account_without_limits",
        api("INFO"),
        create("S", subjects=["s"]),
        publish("s", b"x" * 1000),
        consumer("S", "c"),
        pull("S", "c", 1),
        api("INFO"),
        settings=settings.JETSTREAM_UNLIMITED_ACCOUNT,
    ),
    streams_session(
        "account_without_streams",
        api("INFO"),
        create("S", subjects=["s"]),
        update("S", subjects=["s"]),
        info("S"),
        api("STREAM.NAMES"),
        api("STREAM.LIST"),
        api("STREAM.DELETE.S"),
        api("STREAM.PURGE.S"),
        api("STREAM.MSG.GET.S", {"seq": 1}),
        api("STREAM.MSG.DELETE.S", {"seq": 1}),
        consumer("S", "c"),
        api("CONSUMER.NAMES.S"),
        api("CONSUMER.LIST.S"),
        api("CONSUMER.INFO.S.c"),
        api("CONSUMER.DELETE.S.c"),
        publish("s"),
        settings=settings.JETSTREAM_NOT_FOR_ACCOUNT,
    ),
]

SESSIONS: list[Session] = PLAIN + STREAMS
