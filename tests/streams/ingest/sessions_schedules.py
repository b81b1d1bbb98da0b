"""Sessions about scheduled messages."""

from __future__ import annotations

from typing import Any

from tests.interop.jetstream import info, publish, streams_session
from tests.interop.session import Session, Step, send
from tests.streams.ingest.steps import batch, s, stored

SCHEDULES: dict[str, Any] = {"allow_msg_schedules": True, "allow_rollup_hdrs": True}


def schedule(pattern: str, messages: int = 1, *, target: str = "s.t", **values: Any) -> Step:
    """Publish a schedule to s.a; with 2 messages, also wait for what it publishes."""
    named = {"Nats_Schedule": pattern, "Nats_Schedule_Target": target, **values}
    return publish("s.a", b"later", messages, any_order=True, **named)


SESSIONS: list[Session] = [
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
