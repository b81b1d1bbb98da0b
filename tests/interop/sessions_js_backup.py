"""Backup and restore: requests, archives, chunks, advisories and what is refused."""

from __future__ import annotations

import json
from typing import Any

from tests.interop.jetstream import (
    SECOND,
    ack,
    api,
    consumer,
    consumer_info,
    create,
    expect,
    info,
    publish,
    publish_all,
    pull,
    streams_session,
)
from tests.interop.session import RESTORE_SUBJECT, Session, Step, pub
from tests.streams.backup.archives import entry, pack

SUBSCRIBED = b"SUB chunks 5\r\n"
ADVISORIES = b"SUB $JS.EVENT.ADVISORY.STREAM.> 9\r\n"
EVENTS = b"SUB $JS.EVENT.> 9\r\n"
CONFIG = {"name": "S", "subjects": ["s.>"]}
END = entry(b"")
TIME = 1_700_000_000_000_000_000
FULL = create("S", subjects=["s.>"])


def snapshot(messages: int, **options: Any) -> Step:
    return api("STREAM.SNAPSHOT.S", {"deliver_subject": "chunks", **options}, messages, any_order=True)


def begin(config: Any = CONFIG, messages: int = 1) -> Step:
    return api("STREAM.RESTORE.S", {"config": config, "state": {}}, messages, any_order=True)


def chunk(data: bytes, messages: int = 1) -> Step:
    return expect(messages, pub(RESTORE_SUBJECT, data, b"r"), any_order=True)


def whole(data: bytes, messages: int) -> Step:
    """Both at once: when in between nats-server says that there is a stream is its own affair."""
    return expect(
        messages, pub(RESTORE_SUBJECT, data, b"r") + pub(RESTORE_SUBJECT, b"", b"r"), any_order=True
    )


def state(**fields: Any) -> bytes:
    whole = {
        "messages": 3,
        "bytes": 100,
        "first_seq": 1,
        "first_ts": "2023-11-14T22:13:20Z",
        "last_seq": 5,
        "last_ts": "2023-11-14T22:13:20Z",
        "consumer_count": 0,
        **fields,
    }
    return entry(b"state.json", json.dumps(whole).encode(), time=TIME)


def message(seq: int, body: bytes = b"hello", headers: bytes = b"") -> bytes:
    return entry(b"s.%d" % seq, body, seq=seq, time=TIME + seq, headers=headers)


def archived_consumer(name: str, position: dict[str, Any], **config: Any) -> bytes:
    config = {"durable_name": name, "name": name, "ack_policy": "explicit", **config}
    body = json.dumps({"config": config, "state": position}).encode()
    return entry(b"consumers/" + name.encode(), body, time=TIME)


def at(delivered: int, floor: int, **more: Any) -> dict[str, Any]:
    return {
        "delivered": {"consumer_seq": delivered, "stream_seq": delivered},
        "ack_floor": {"consumer_seq": floor, "stream_seq": floor},
        **more,
    }


WITH_HEADERS = b"NATS/1.0\r\nNats-Msg-Id: one\r\nA: b\r\n\r\n"
ARCHIVE = pack(state(), message(1), message(3, b"", WITH_HEADERS), message(4), END)
FAR = 7_000_000_000_000_000_000  # nothing that was delivered then is due
PENDING = {"2": {"Sequence": 2, "Timestamp": FAR}, "3": {"Sequence": 3, "Timestamp": FAR}}
WITH_CONSUMERS = pack(
    state(consumer_count=3),
    archived_consumer("C", at(3, 1, pending=PENDING, redelivered={"3": 2}), ack_wait=3600 * SECOND),
    archived_consumer("new", at(0, 0), filter_subject="s.4"),
    archived_consumer("none", at(4, 4), ack_policy="none", deliver_subject="nobody"),
    message(1),
    message(2),
    message(3),
    message(4),
    END,
)

SNAPSHOTS: dict[str, tuple[Step | bytes, ...]] = {
    "without_body": (FULL, api("STREAM.SNAPSHOT.S")),
    "of_an_empty_object": (FULL, api("STREAM.SNAPSHOT.S", {})),
    "of_no_stream": (api("STREAM.SNAPSHOT.S", {"deliver_subject": "chunks"}),),
    "without_deliver_subject": (FULL, api("STREAM.SNAPSHOT.S", {"no_consumers": True})),
    "with_wildcard": (FULL, api("STREAM.SNAPSHOT.S", {"deliver_subject": "a.*"})),
    "with_invalid_subject": (FULL, api("STREAM.SNAPSHOT.S", {"deliver_subject": "a..b"})),
    "with_wrong_types": (FULL, api("STREAM.SNAPSHOT.S", {"deliver_subject": "a", "chunk_size": "x"})),
    "with_unknown_field": (FULL, api("STREAM.SNAPSHOT.S", {"deliver_subject": "a", "what": 1})),
    "with_broken_json": (FULL, api("STREAM.SNAPSHOT.S", b'{"deliver_subject": ')),
    "of_nothing": (FULL, SUBSCRIBED, snapshot(3)),
    "of_messages": (
        FULL,
        publish_all("s.1", "s.2", "s.3"),
        publish("s.4", Nats_Msg_Id="id", Other="header"),
        api("STREAM.MSG.DELETE.S", {"seq": 2}),
        SUBSCRIBED,
        snapshot(3),
    ),
    "of_memory": (
        create("S", subjects=["s.>"], storage="memory"),
        publish_all("s.1", "s.2"),
        SUBSCRIBED,
        snapshot(3),
    ),
    "with_check": (FULL, publish_all("s.1", "s.2"), SUBSCRIBED, snapshot(3, jsck=True)),
    "of_a_purged_stream": (
        FULL,
        publish_all("s.1", "s.2"),
        api("STREAM.PURGE.S"),
        SUBSCRIBED,
        snapshot(3),
    ),
    "with_consumers": (
        FULL,
        publish_all("s.1", "s.2", "s.3", "s.4"),
        consumer("S", "C", ack_wait=3600 * SECOND),
        pull("S", "C", 3, {"batch": 3}),
        ack("S", "C", 1, 1, double=True),
        SUBSCRIBED,
        snapshot(3),
        info("S"),
    ),
    "without_consumers": (
        FULL,
        publish_all("s.1", "s.2"),
        consumer("S", "C"),
        SUBSCRIBED,
        snapshot(3, no_consumers=True),
    ),
    "with_advisories": (FULL, publish_all("s.1"), SUBSCRIBED, ADVISORIES, snapshot(5)),
}

RESTORES: dict[str, tuple[Step | bytes, ...]] = {
    "without_body": (api("STREAM.RESTORE.S"),),
    "of_an_empty_object": (api("STREAM.RESTORE.S", {}),),
    "of_an_existing_stream": (FULL, begin()),
    "of_another_name": (begin({**CONFIG, "name": "T"}),),
    "with_unknown_field": (api("STREAM.RESTORE.S", {"config": CONFIG, "what": 1}),),
    "with_broken_json": (api("STREAM.RESTORE.S", b'{"config": '),),
    "with_invalid_subject": (begin({**CONFIG, "subjects": ["a b"]}),),
    "with_invalid_name": (api("STREAM.RESTORE.a*b", {"config": {**CONFIG, "name": "a*b"}}),),
    "without_name": (begin({"subjects": ["s.>"]}), chunk(ARCHIVE), chunk(b""), info("S")),
    "of_messages": (
        begin(),
        chunk(ARCHIVE),
        chunk(b""),
        info("S", {"deleted_details": True}),
        api("STREAM.MSG.GET.S", {"seq": 1}),
        api("STREAM.MSG.GET.S", {"seq": 2}),
        api("STREAM.MSG.GET.S", {"seq": 3}),
        publish("s.new"),
    ),
    "in_small_chunks": (
        begin(),
        *(chunk(ARCHIVE[start : start + 50]) for start in range(0, len(ARCHIVE), 50)),
        chunk(b""),
        info("S"),
    ),
    "with_other_limits": (
        begin({**CONFIG, "max_msgs": 2, "description": "smaller"}),
        chunk(ARCHIVE),
        chunk(b""),
        info("S"),
    ),
    "into_memory": (begin({**CONFIG, "storage": "memory"}), chunk(ARCHIVE), chunk(b""), info("S")),
    "of_nothing": (
        begin(),
        chunk(pack(state(messages=0, first_seq=11, last_seq=10), END)),
        chunk(b""),
        info("S"),
        publish("s.new"),
    ),
    "with_a_deleted_tail": (
        begin(),
        chunk(pack(state(last_seq=9), message(1), END)),
        chunk(b""),
        info("S"),
        publish("s.new"),
    ),
    "with_consumers": (
        begin(),
        chunk(WITH_CONSUMERS),
        chunk(b""),
        info("S"),
        consumer_info("S", "C"),
        consumer_info("S", "new"),
        consumer_info("S", "none"),
        pull("S", "new", 1),
        pull("S", "C", 1),
    ),
    "with_advisories": (ADVISORIES, begin(messages=2), whole(ARCHIVE, 4)),
    "with_advisories_of_consumers": (EVENTS, begin(messages=3), whole(WITH_CONSUMERS, 4)),
    "of_garbage": (begin(), chunk(b"what is this?"), chunk(b"and this?")),
    "to_nobody": (expect(1, pub(b"$JS.SNAPSHOT.RESTORE.S.x", b"x", b"r")),),
}

SESSIONS: list[Session] = [
    *(streams_session(f"snapshot_{name}", *steps) for name, steps in SNAPSHOTS.items()),
    *(streams_session(f"restore_{name}", *steps) for name, steps in RESTORES.items()),
]
