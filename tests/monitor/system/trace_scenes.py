"""Scenes for the comparison of message traces: who subscribes to what, and which message asks for a trace."""

from __future__ import annotations

import json
from typing import Any

from tests.monitor.system.peer import Peer
from tests.monitor.system.trace_stage import SCENES, Stage, scene, shown

__all__ = ["SCENES"]

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
UNSAMPLED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
T = {"Nats_Trace_Dest": "t.x"}
ONLY = {**T, "Nats_Trace_Only": "true"}


@scene(traces=1, messages=3)
def plain(stage: Stage) -> None:
    stage.subscribe("ann", "x.1", "x.*", "y")
    stage.subscribe("ann", "x.>", name="other")
    stage.peer("ann").publish("x.1", b"hello", **T, Other="Value")


@scene(traces=1, messages=0)
def plain_only(stage: Stage) -> None:
    stage.subscribe("ann", "x.1", "x.*", "y")
    stage.subscribe("ann", "x.>", name="other")
    stage.peer("ann").publish("x.1", b"hello", reply="back", **ONLY)


@scene(traces=1, messages=1)
def nobody(stage: Stage) -> None:
    stage.subscribe("ann", "back")
    stage.peer("ann").publish("x.1", b"hello", reply="back", **T)


@scene(traces=1, messages=1)
def nobody_only(stage: Stage) -> None:
    stage.subscribe("ann", "back")
    stage.peer("ann").publish("x.1", b"hello", reply="back", **ONLY)


@scene(traces=1, messages=1)
def queue_group(stage: Stage) -> None:
    stage.subscribe("ann", "q workers")
    stage.peer("ann").publish("q", b"hello", **T)


@scene(traces=1, messages=0)
def queue_group_only(stage: Stage) -> None:
    stage.subscribe("ann", "q workers", "q")
    stage.peer("ann").publish("q", b"hello", **ONLY)


@scene(traces=1, messages=0)
def no_echo(stage: Stage) -> None:
    stage.subscribe("ann", "x.1", name="quiet", echo=False)
    stage.peer("ann", "quiet").publish("x.1", b"hello", **T)


@scene(traces=1, messages=1)
def denied_subject(stage: Stage) -> None:
    stage.peer("ned").publish("no.1", b"hello", **T)


@scene(traces=0, messages=1)
def denied_destination(stage: Stage) -> None:
    stage.subscribe("ann", "x.1")
    stage.peer("ned").publish("x.1", b"hello", Nats_Trace_Dest="hidden")


@scene(traces=1, messages=0)
def denied_delivery(stage: Stage) -> None:
    stage.subscribe("ned", "x.*")
    stage.peer("ann").publish("x.secret", b"hello", **T)


@scene(traces=1, messages=1)
def reserved_reply(stage: Stage) -> None:
    stage.peer("ann").publish("x.1", b"hello", reply="_R_.a.b", **T)


@scene(traces=3, messages=2)
def last_of_a_maximum(stage: Stage) -> None:
    peer = stage.subscribe("ann", "x.1", name="two")
    peer.send(b"UNSUB 1 2\r\n")
    peer.sync()
    for _ in range(3):
        stage.peer("ann").publish("x.1", b"hello", **T)


@scene(traces=1, messages=1)
def mapped(stage: Stage) -> None:
    stage.subscribe("ann", "mapped.*", "m.*")
    stage.peer("ann").publish("m.1", b"hello", **T)


@scene(traces=1, messages=3)
def stream_import(stage: Stage) -> None:
    stage.subscribe("bob", "b.out.*")
    stage.subscribe("cid", "out.1")
    stage.subscribe("ann", "out.*")
    stage.peer("ann").publish("out.1", b"hello", **T)


@scene(traces=1, messages=0)
def stream_import_only(stage: Stage) -> None:
    stage.subscribe("bob", "b.out.*")
    stage.subscribe("cid", "out.1 workers")
    stage.peer("ann").publish("out.1", b"hello", **ONLY)


@scene(traces=1, messages=1)
def service_import(stage: Stage) -> None:
    stage.subscribe("sue", "open.*")
    stage.subscribe("ann", "back")
    stage.peer("ann").publish("ask.open.1", b"hello", reply="back", **T)


@scene(traces=1, messages=0)
def service_import_only(stage: Stage) -> None:
    stage.subscribe("sue", "open.*")
    stage.subscribe("ann", "back")
    stage.peer("ann").publish("ask.open.1", b"hello", reply="back", **ONLY)


@scene(traces=1, messages=1)
def service_import_without_trace(stage: Stage) -> None:
    stage.subscribe("sue", "shut")
    stage.subscribe("ann", "back")
    stage.peer("ann").publish("ask.shut", b"hello", reply="back", **T)


@scene(traces=1, messages=1)
def service_import_without_trace_only(stage: Stage) -> None:
    stage.subscribe("sue", "shut")
    stage.subscribe("ann", "back")
    stage.peer("ann").publish("ask.shut", b"hello", reply="back", **ONLY)


@scene(traces=1, messages=1)
def service_import_to_nobody(stage: Stage) -> None:
    stage.subscribe("ann", "back")
    stage.peer("ann").publish("ask.open.1", b"hello", reply="back", **T)


@scene(traces=1, messages=2)
def service_reply(stage: Stage) -> None:
    sue = stage.subscribe("sue", "open.*", "t.x")
    stage.subscribe("ann", "back")
    stage.peer("ann").publish("ask.open.1", b"hello", reply="back")
    stage.peer("ann").sync()
    request = sue.messages(1)[0]
    sue.publish(request.reply.decode(), b"answer", **T)


def stream(stage: Stage, **config: Any) -> Peer:
    ann = stage.subscribe("ann", "ack")
    name = config.pop("name", "STREAM")
    document = {"name": name, "subjects": ["s.>"], "storage": "memory", **config}
    ann.publish(f"$JS.API.STREAM.CREATE.{name}", json.dumps(document).encode(), reply="ack")
    assert b"error" not in ann.messages(1)[0].payload
    return ann


@scene(traces=1, messages=1)
def stored(stage: Stage) -> None:
    stream(stage).publish("s.1", b"hello", reply="ack", **T)


@scene(traces=1, messages=1)
def stored_only(stage: Stage) -> None:
    ann = stream(stage)
    ann.publish("s.1", b"hello", reply="ack", **ONLY)
    ann.sync()
    ann.publish("$JS.API.STREAM.MSG.GET.STREAM", b'{"seq": 1}', reply="ack")


@scene(traces=1, messages=0)
def stored_message(stage: Stage) -> None:
    """What is kept of the header."""
    ann = stream(stage, allow_direct=True)
    ann.publish("s.1", b"hello", reply="ack", **T)
    ann.messages(1)
    ann.publish("$JS.API.DIRECT.GET.STREAM", b'{"seq": 1}', reply="ack")
    stage.heard["direct"] = [shown(frame) for frame in ann.messages(1)]


@scene(traces=1, messages=2)
def stored_and_received(stage: Stage) -> None:
    stage.subscribe("ann", "s.>", name="other")
    stream(stage).publish("s.1", b"hello", reply="ack", **T)


@scene(traces=1, messages=1)
def too_large(stage: Stage) -> None:
    stream(stage, max_msg_size=10).publish("s.1", b"hello", reply="ack", **T)


@scene(traces=1, messages=1)
def wrong_sequence(stage: Stage) -> None:
    stream(stage).publish("s.1", b"hello", reply="ack", **T, Nats_Expected_Last_Sequence="7")


@scene(traces=1, messages=1)
def wrong_stream(stage: Stage) -> None:
    stream(stage).publish("s.1", b"hello", reply="ack", **T, Nats_Expected_Stream="OTHER")


@scene(traces=1, messages=1)
def wrong_subject_sequence(stage: Stage) -> None:
    headers = {"Nats_Expected_Last_Subject_Sequence": "7"}
    stream(stage).publish("s.1", b"hello", reply="ack", **T, **headers)


@scene(traces=1, messages=1)
def wrong_last_id(stage: Stage) -> None:
    stream(stage).publish("s.1", b"hello", reply="ack", **T, Nats_Expected_Last_Msg_Id="a")


@scene(traces=1, messages=1)
def no_rollup(stage: Stage) -> None:
    stream(stage, allow_rollup_hdrs=False).publish("s.1", b"", reply="ack", **T, Nats_Rollup="all")


@scene(traces=1, messages=1)
def no_ttl(stage: Stage) -> None:
    stream(stage).publish("s.1", b"", reply="ack", **T, Nats_TTL="5")


@scene(traces=1, messages=1)
def duplicate(stage: Stage) -> None:
    ann = stream(stage)
    ann.publish("s.1", b"hello", reply="ack", Nats_Msg_Id="a")
    ann.messages(1)
    ann.publish("s.1", b"hello", reply="ack", **T, Nats_Msg_Id="a")


@scene(traces=1, messages=1)
def full(stage: Stage) -> None:
    ann = stream(stage, max_msgs=1, discard="new")
    ann.publish("s.1", b"hello", reply="ack")
    ann.messages(1)
    ann.publish("s.1", b"hello", reply="ack", **T)


@scene(traces=1, messages=1)
def no_consumer(stage: Stage) -> None:
    stream(stage, retention="interest").publish("s.1", b"hello", reply="ack", **T)


@scene(traces=1, messages=1)
def transformed(stage: Stage) -> None:
    change = {"src": "s.*", "dest": "stored.{{wildcard(1)}}"}
    stream(stage, subject_transform=change).publish("s.1", b"hello", reply="ack", **T)


@scene(traces=1, messages=1)
def too_large_only(stage: Stage) -> None:
    ann = stream(stage, max_msg_size=10)
    ann.publish("s.1", b"hello", reply="ack", **ONLY)


@scene(traces=1, messages=1)
def api_request(stage: Stage) -> None:
    stage.subscribe("ann", "ack")
    stage.peer("ann").publish("$JS.API.INFO", b"", reply="ack", **T)


@scene(traces=1, messages=1)
def api_request_only(stage: Stage) -> None:
    stage.subscribe("ann", "ack")
    stage.peer("ann").publish("$JS.API.INFO", b"", reply="ack", **ONLY)


@scene(traces=1, messages=2)
def parent(stage: Stage) -> None:
    stage.subscribe("tom", "x", name="receiver")
    stage.subscribe("tom", "traces")
    stage.peer("tom", "sender").publish("x", b"hello", traceparent=PARENT)


@scene(traces=1, messages=1)
def parent_in_capitals(stage: Stage) -> None:
    stage.subscribe("tom", "traces")
    stage.peer("tom", "sender").publish("x", b"hello", TraceParent=PARENT)


@scene(traces=0, messages=1)
def unsampled_parent(stage: Stage) -> None:
    stage.subscribe("tom", "x", "traces")
    stage.peer("tom").publish("x", b"hello", traceparent=UNSAMPLED)


@scene(traces=0, messages=2)
def parent_and_destination(stage: Stage) -> None:
    stage.subscribe("tom", "x", "traces", "t.x")
    stage.peer("tom", "sender").publish("x", b"hello", traceparent=PARENT, **T)


@scene(traces=0, messages=1)
def parent_without_configuration(stage: Stage) -> None:
    stage.subscribe("ann", "x")
    stage.peer("ann").publish("x", b"hello", traceparent=PARENT)


@scene(traces=0, messages=1)
def wildcard_destination(stage: Stage) -> None:
    stage.subscribe("ann", "x")
    stage.peer("ann").publish("x", b"hello", Nats_Trace_Dest="t.*")


@scene(traces=0, messages=0)
def wildcard_destination_only(stage: Stage) -> None:
    stage.subscribe("ann", "x")
    stage.peer("ann").publish("x", b"hello", Nats_Trace_Dest="t.*", Nats_Trace_Only="on")


@scene(traces=0, messages=1)
def disabled(stage: Stage) -> None:
    stage.subscribe("ann", "x")
    stage.peer("ann").publish("x", b"hello", Nats_Trace_Dest="trace disabled")


@scene(traces=0, messages=1)
def empty_destination(stage: Stage) -> None:
    stage.subscribe("ann", "x")
    stage.peer("ann").publish("x", b"hello", Nats_Trace_Dest="", Nats_Trace_Only="1")


@scene(traces=0, messages=1)
def origin_account(stage: Stage) -> None:
    stage.subscribe("ann", "x")
    stage.peer("ann").publish("x", b"hello", **T, Nats_Trace_Origin_Account="B")


@scene(traces=0, messages=1)
def other_case(stage: Stage) -> None:
    stage.subscribe("ann", "x")
    stage.peer("ann").publish("x", b"hello", nats_trace_dest="t.x")


@scene(traces=1, messages=1)
def not_only(stage: Stage) -> None:
    stage.subscribe("ann", "x")
    stage.peer("ann").publish("x", b"hello", **T, Nats_Trace_Only="no")


@scene(traces=1, messages=0)
def beyond_max_payload(stage: Stage) -> None:
    stage.peer("ann", "sender").publish("x", b"x" * 3000, **T)
    stage.heard["sender"] = [shown(frame) for frame in stage.peers.pop("sender").last_words()]


@scene(traces=1, messages=1)
def receiver_without_headers(stage: Stage) -> None:
    stage.subscribe("ann", "x", name="old", headers=False, no_responders=False)
    stage.peer("ann").publish("x", b"hello", **T)


@scene(traces=1, messages=0)
def between_others(stage: Stage) -> None:
    """In one packet, and in this order."""
    ann = stage.subscribe("ann", "x")
    head = b"NATS/1.0\r\nNats-Trace-Dest: t.x\r\n\r\n"
    sizes = b"%d %d" % (len(head), len(head) + 3)
    ann.send(b"PUB x 3\r\none\r\nHPUB x " + sizes + b"\r\n" + head + b"two\r\nPUB x 5\r\nthree\r\n")
    stage.heard["order"] = [frame.payload.decode() for frame in ann.messages(3)]


@scene(traces=1, messages=1)
def stored_on_disk(stage: Stage) -> None:
    stream(stage, storage="file").publish("s.1", b"hello", reply="ack", **T)


@scene(traces=1, messages=1)
def sealed(stage: Stage) -> None:
    ann = stream(stage)
    document = {"name": "STREAM", "subjects": ["s.>"], "storage": "memory", "sealed": True}
    ann.publish("$JS.API.STREAM.UPDATE.STREAM", json.dumps(document).encode(), reply="ack")
    ann.messages(1)
    ann.publish("s.1", b"hello", reply="ack", **T)


@scene(traces=1, messages=2)
def api_request_with_parent(stage: Stage) -> None:
    stage.subscribe("tom", "traces", "ack")
    stage.peer("tom").publish("$JS.API.INFO", b"", reply="ack", traceparent=PARENT)


@scene(traces=1, messages=0)
def compressed(stage: Stage) -> None:
    stage.peer("ann").publish("x", b"hello", **T, Accept_Encoding="gzip, deflate")


@scene(traces=1, messages=0)
def compressed_in_an_unknown_way(stage: Stage) -> None:
    stage.peer("ann").publish("x", b"hello", **T, Accept_Encoding="br")


@scene(traces=1, messages=1)
def direct_get(stage: Stage) -> None:
    ann = stream(stage, allow_direct=True)
    ann.publish("s.1", b"hello", reply="ack")
    ann.messages(1)
    ann.publish("$JS.API.DIRECT.GET.STREAM", b'{"last_by_subj": "s.1"}', reply="ack", **T)
