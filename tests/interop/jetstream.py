"""The words that sessions about streams add to the language of session.py.

Such a session starts on a server without streams. Connection "a" is connected and subscribed to `r`, where
answers go. `api` asks and waits for the answer; `publish` publishes and waits for the acknowledgement.
Where more (or nothing) is to come, say how many messages. Acknowledgement subjects have a time in them that
no server looks at, so sessions can write them down: `ack_subject`.
"""

from __future__ import annotations

import json
from typing import Any

from tests.interop import settings
from tests.interop.session import Session, Step, connect, hpub, pub, quiet, send

REPLY = b"r"
SECOND = 10**9
MILLISECOND = 10**6


def streams_session(
    name: str, *steps: Step | bytes, settings: str = settings.JETSTREAM, waits: bool = True
) -> Session:
    """Ends with a look at what came unasked, if it `waits` for that."""
    written_out = [send(step) if isinstance(step, bytes) else step for step in steps]
    start = [connect(no_responders=True), send(b"SUB r 1\r\n")]
    end = [quiet()] if waits else []
    return Session(f"js_{name}", (*start, *written_out, *end), settings, about_streams=True)


def expect(messages: int, data: bytes = b"", on: str = "a", *, any_order: bool = False) -> Step:
    """Send, and wait until the connection has received this many messages."""
    return Step("expect", on, data, any_order=any_order, messages=messages)


def encode(body: Any) -> bytes:
    return body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()


def api(verb: str, body: Any = None, messages: int = 1, *, any_order: bool = False) -> Step:
    """A request to `$JS.API.<verb>`; a body that is not bytes is sent as JSON."""
    return expect(messages, pub(b"$JS.API." + verb.encode(), encode(body), REPLY), any_order=any_order)


def until(verb: str, body: Any, *wanted: bytes) -> Step:
    """Ask until the answer holds all of these: for what happens later, however busy the machine is."""
    return Step("until", data=pub(b"$JS.API." + verb.encode(), encode(body), REPLY), wanted=wanted)


def create(name: str, *, messages: int = 1, any_order: bool = False, **config: Any) -> Step:
    """Create a stream; without subjects it has none, as with mirrors."""
    return api(f"STREAM.CREATE.{name}", {"name": name, **config}, messages, any_order=any_order)


def update(name: str, **config: Any) -> Step:
    return api(f"STREAM.UPDATE.{name}", {"name": name, **config})


def info(name: str, body: Any = None) -> Step:
    return api(f"STREAM.INFO.{name}", body)


def consumer(stream: str, name: str, *, action: str = "", messages: int = 1, **config: Any) -> Step:
    """Create or update a named consumer; durable unless it says otherwise."""
    config = {"durable_name": name, "ack_policy": "explicit", **config, "name": name}
    if config["durable_name"] is None:
        del config["durable_name"]
    body = {"stream_name": stream, "config": config, **({"action": action} if action else {})}
    # What it delivers may overtake the answer.
    return api(f"CONSUMER.CREATE.{stream}.{name}", body, messages, any_order=messages > 1)


def consumer_info(stream: str, name: str) -> Step:
    return api(f"CONSUMER.INFO.{stream}.{name}")


def headers(**values: Any) -> bytes:
    """A header block; `Nats_Msg_Id="x"` is `Nats-Msg-Id: x`."""
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in values.items()]
    return ("NATS/1.0\r\n" + "".join(lines) + "\r\n").encode()


def message(subject: str, payload: bytes = b"x", reply: bytes = REPLY, **values: Any) -> bytes:
    """A PUB, or an HPUB where there are headers."""
    if values:
        return hpub(subject.encode(), headers(**values), payload, reply)
    return pub(subject.encode(), payload, reply)


def publish(
    subject: str, payload: bytes = b"x", messages: int = 1, *, any_order: bool = False, **values: Any
) -> Step:
    return expect(messages, message(subject, payload, **values), any_order=any_order)


def publish_all(*subjects: str) -> Step:
    """Several messages with the payloads 1, 2, 3 ..., one after another."""
    data = b"".join(message(subject, b"%d" % place) for place, subject in enumerate(subjects, 1))
    return expect(len(subjects), data)


def pull(stream: str, name: str, messages: int, body: Any = None, reply: bytes = b"r") -> Step:
    """Ask for messages; `messages` is how many come, status messages included."""
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}".encode()
    return expect(messages, pub(subject, encode(body), reply))


def ack_subject(stream: str, name: str, stream_seq: int, consumer_seq: int, deliveries: int = 1) -> bytes:
    return f"$JS.ACK.{stream}.{name}.{deliveries}.{stream_seq}.{consumer_seq}.1700000000000000000.0".encode()


def ack(
    stream: str,
    name: str,
    stream_seq: int,
    consumer_seq: int,
    body: bytes = b"+ACK",
    *,
    deliveries: int = 1,
    messages: int = 0,
    double: bool = False,
) -> Step:
    """Acknowledge, or what `body` says; `double` asks for an answer."""
    subject = ack_subject(stream, name, stream_seq, consumer_seq, deliveries)
    data = pub(subject, body, REPLY if double or messages else b"")
    return expect(messages or int(double), data, any_order=double and messages > 1)
