"""Streams and those who may not do everything: the API by permission, and headers that only servers write."""

from tests.interop.jetstream import (
    api,
    consumer,
    create,
    expect,
    info,
    message,
    publish,
    pull,
    streams_session,
)
from tests.interop.session import Session

CLIENT_INFO = '{"acc":"$SYS","svc":"OTHER","user":"boss","start":"2026-01-01T00:00:00Z","stop":"x"}'

# What servers tell each other. A client that sends it must gain nothing.
INTERNAL_HEADERS: dict[str, dict[str, str]] = {
    "client_info": {"Nats_Request_Info": CLIENT_INFO},
    "client_info_broken": {"Nats_Request_Info": "{"},
    "stream_source": {"Nats_Stream_Source": "OTHER 7 > > in.x"},
    "pending": {"Nats_Num_Pending": "7", "Nats_Pending_Messages": "7"},
    "position": {"Nats_Sequence": "99", "Nats_Time_Stamp": "2026-01-01T00:00:00Z"},
    "subject": {"Nats_Subject": "in.other", "Nats_Stream": "OTHER", "Nats_Last_Sequence": "99"},
    "flow_control": {"Nats_Consumer_Stalled": "r", "Nats_Last_Consumer": "9", "Nats_Last_Stream": "9"},
    "batch_stamp": {"Nats_Response_Type": "ack", "Nats_UpTo_Sequence": "5"},
}

SPOOFED: list[Session] = [
    streams_session(
        f"spoofed_{name}",
        create("S", subjects=["in.*"], allow_direct=True),
        expect(1, message("$JS.API.STREAM.INFO.S", b"", **values)),
        expect(1, message("$JS.API.STREAM.NAMES", b"", **values)),
        publish("in.x", b"hello", **values),
        consumer("S", "C"),
        pull("S", "C", 1, {"batch": 1, "no_wait": True}),
        api("STREAM.MSG.GET.S", {"seq": 1}),
        info("S"),
        waits=False,
    )
    for name, values in INTERNAL_HEADERS.items()
]

# No user is named, so that everybody is the guest, who may not purge, and not read `in.secret`.
GUEST = """
jetstream { max_mem: 1G, max_file: 8G }
authorization { users: [
  {
    user: guest
    permissions: {
      publish: { deny: ["$JS.API.STREAM.PURGE.>", "$JS.API.DIRECT.GET.*.in.secret", "in.closed"] }
      subscribe: { deny: "in.secret" }
    }
  }
] }
no_auth_user: guest
"""

ALLOWED: list[Session] = [
    streams_session(
        "permission_refused_request",
        create("S", subjects=["in.*"]),
        publish("in.a"),
        expect(0, message("$JS.API.STREAM.PURGE.S", b"")),
        info("S"),
        settings=GUEST,
        waits=False,
    ),
    streams_session(
        "permission_refused_publish_is_not_stored",
        create("S", subjects=["in.*"]),
        expect(0, message("in.closed")),
        publish("in.a"),
        info("S"),
        settings=GUEST,
        waits=False,
    ),
    streams_session(
        "permission_refused_direct_get",
        create("S", subjects=["in.*"], allow_direct=True),
        publish("in.secret"),
        expect(0, message("$JS.API.DIRECT.GET.S.in.secret", b"")),
        publish("in.open"),
        expect(1, message("$JS.API.DIRECT.GET.S.in.open", b"")),
        settings=GUEST,
        waits=False,
    ),
    streams_session(
        "permission_denied_in_a_batch",
        b"SUB in.* 9\r\n",  # nats-server checks stored messages once there is such a subscription
        create("S", subjects=["in.*"]),
        publish("in.a", messages=2, any_order=True),
        publish("in.secret"),
        publish("in.b", messages=2, any_order=True),
        consumer("S", "C", ack_policy="none"),
        pull("S", "C", 2, {"batch": 3, "no_wait": True}),
        api("CONSUMER.INFO.S.C"),
        settings=GUEST,
        waits=False,
    ),
]

SESSIONS: list[Session] = SPOOFED + ALLOWED
