"""What the page changes. Each act is one request in the user's account, checked as any client's would be.

stream.create      $JS.API.STREAM.CREATE.<stream>
stream.purge       $JS.API.STREAM.PURGE.<stream>
connection.close   $SYS.REQ.SERVER.<id>.KICK, whose permission it needs
key.put            $KV.<bucket>.<key>, and so on
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from headrace.accounts.account import Account
from headrace.go_formats import format_time, quote
from headrace.monitor.console.asking import Asking, Document, shown
from headrace.monitor.console.calls import HeaderList, decode_headers, encode_headers, read_answer
from headrace.monitor.console.refusal import Refusal, bad_request, not_found
from headrace.monitor.console.stream_settings import StreamSettings, read_settings
from headrace.monitor.console.views.connections import find_connection
from headrace.monitor.console.views.keyvalue import OPERATION, operation_of
from headrace.monitor.console.views.messages import WHOLE_BYTES
from headrace.subjects.grammar import encode, is_subset, is_valid_publish_subject
from headrace.subjects.keys import KEY_RULE, is_valid_key

if TYPE_CHECKING:
    from headrace.streams.stream import Stream

MAX_WAIT_SECONDS = 60.0
MAX_PAUSE_SECONDS = 10 * 366 * 86400.0
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
NO_TOKEN = frozenset(" .*>\t\r\n\f\0/\\")


class OfAccount(msgspec.Struct, forbid_unknown_fields=True):
    account: str


class OfStream(OfAccount):
    stream: str


class SaveStream(OfStream):
    settings: StreamSettings


class Confirmed(OfStream):
    """`confirm` is the name again, typed by the user."""

    confirm: str = ""


class Purge(Confirmed):
    filter: str = ""
    seq: str = ""
    keep: str = ""


class OneMessage(OfStream):
    seq: str


class OfConsumer(OfStream):
    consumer: str


class Pause(OfConsumer):
    seconds: float


class Reset(OfConsumer):
    seq: str = ""


class Unpin(OfConsumer):
    group: str


class CloseConnection(msgspec.Struct, forbid_unknown_fields=True):
    cid: int


class Publish(OfAccount):
    subject: str
    payload: str = ""
    headers: HeaderList = []


class RequestBody(Publish):
    seconds: float = 5.0


class OfKey(OfAccount):
    bucket: str
    key: str
    revision: str = ""
    """The one that the user saw; another one in the meantime is an error. 0: there is no such key yet. Empty:
    it does not matter."""

    @property
    def is_new(self) -> bool:
        return self.revision == "0"


class PutKey(OfKey, kw_only=True):
    value: str


def token(name: str, kind: str) -> str:
    """A name as a token of a subject. Raises Refusal: nothing can have another one."""
    if not name or not NO_TOKEN.isdisjoint(name):
        raise not_found(f"There is no such {kind}.")
    return name


def number(text: str, name: str) -> int:
    """Raises Refusal."""
    if not text.isascii() or not text.isdigit() or len(text) > 20 or int(text) >= 2**64:
        raise bad_request(f"{name} is a number from 0 on.")
    return int(text)


async def call(ask: Asking, body: OfAccount, subject: str, fields: dict[str, Any]) -> Document:
    """A request of the JetStream API."""
    account = ask.viewer.account(body.account)
    return await ask.calls.api(ask.viewer, account, subject, fields)


# -- streams and messages


async def create_stream(ask: Asking, body: SaveStream) -> Document:
    if not body.stream or not NO_TOKEN.isdisjoint(body.stream):
        raise bad_request("A stream has a name, without spaces, dots, slashes and wildcards.")
    fields = {"name": body.stream, **read_settings(body.settings)}
    await call(ask, body, f"STREAM.CREATE.{body.stream}", fields)
    return {"success": True}


async def update_stream(ask: Asking, body: SaveStream) -> Document:
    """An update replaces the whole configuration, so what the form did not change is asked for first."""
    name = token(body.stream, "stream")
    changes = read_settings(body.settings)
    info = await call(ask, body, f"STREAM.INFO.{name}", {})
    await call(ask, body, f"STREAM.UPDATE.{name}", info["config"] | changes)
    return {"success": True}


def check_confirmed(body: Confirmed) -> None:
    if body.confirm != body.stream:
        raise bad_request("Type the name of the stream to confirm.")


async def purge_stream(ask: Asking, body: Purge) -> Document:
    check_confirmed(body)
    fields: dict[str, Any] = {"filter": body.filter} if body.filter else {}
    for name in ("seq", "keep"):
        if given := getattr(body, name):
            fields[name] = number(given, name)
    return await call(ask, body, f"STREAM.PURGE.{token(body.stream, 'stream')}", fields)


async def delete_stream(ask: Asking, body: Confirmed) -> Document:
    check_confirmed(body)
    return await call(ask, body, f"STREAM.DELETE.{token(body.stream, 'stream')}", {})


async def delete_message(ask: Asking, body: OneMessage) -> Document:
    fields = {"seq": number(body.seq, "seq")}
    return await call(ask, body, f"STREAM.MSG.DELETE.{token(body.stream, 'stream')}", fields)


# -- consumers


def of_consumer(verb: str, body: OfConsumer) -> str:
    return f"CONSUMER.{verb}.{token(body.stream, 'stream')}.{token(body.consumer, 'consumer')}"


async def pause_consumer(ask: Asking, body: Pause) -> Document:
    if not 0 < body.seconds <= MAX_PAUSE_SECONDS:
        raise bad_request("A pause is longer than nothing and shorter than ten years.")
    until = format_time(time.time_ns() + int(body.seconds * 1e9))
    return await call(ask, body, of_consumer("PAUSE", body), {"pause_until": until})


async def resume_consumer(ask: Asking, body: OfConsumer) -> Document:
    return await call(ask, body, of_consumer("PAUSE", body), {})


async def reset_consumer(ask: Asking, body: Reset) -> Document:
    fields = {"seq": number(body.seq, "seq")} if body.seq else {}
    return await call(ask, body, of_consumer("RESET", body), fields)


async def unpin_consumer(ask: Asking, body: Unpin) -> Document:
    return await call(ask, body, of_consumer("UNPIN", body), {"group": body.group})


async def delete_consumer(ask: Asking, body: OfConsumer) -> Document:
    return await call(ask, body, of_consumer("DELETE", body), {})


# -- connections


async def close_connection(ask: Asking, body: CloseConnection) -> Document:
    ask.viewer.check_publish(f"$SYS.REQ.SERVER.{ask.broker.server_id}.KICK")
    connection = find_connection(ask, body.cid)
    user = ask.viewer.user or "somebody without a name"
    ask.broker.logger.info(f"{connection} - Closed from the console, by {user}")
    connection.link.close("Kicked")
    ask.broker.hub.flush_soon()
    return {"success": True}


# -- messages


def stream_of(ask: Asking, account: Account, subject: str) -> Stream | None:
    """The one that stores what is published to a subject, and acknowledges it."""
    if ask.context.jetstream is None or account.name not in ask.context.jetstream.accounts:
        return None
    for stream in ask.context.jetstream.accounts[account.name].streams.values():
        if not stream.config.no_ack and any(is_subset(subject, one) for one in stream.config.subjects):
            return stream
    return None


async def publish(ask: Asking, body: Publish) -> Document:
    """A stream acknowledges when the message is on disk; otherwise the answer is whether anybody got it."""
    account = ask.viewer.account(body.account)
    payload, headers = body.payload.encode(), encode_headers(body.headers)
    if stream_of(ask, account, body.subject) is None:
        return {"delivered": ask.calls.publish(ask.viewer, account, body.subject, payload, headers)}
    return await store(ask, account, body.subject, payload, headers)


async def store(ask: Asking, account: Account, subject: str, payload: bytes, headers: bytes) -> Document:
    """Raises Refusal with the error of the stream."""
    message = await ask.calls.request(ask.viewer, account, subject, payload, headers)
    answer = read_answer(message.payload)
    return answer | {"seq": str(answer.get("seq", ""))}


async def request(ask: Asking, body: RequestBody) -> Document:
    if not 0 < body.seconds <= MAX_WAIT_SECONDS:
        raise bad_request(f"An answer can be awaited for up to {MAX_WAIT_SECONDS:g} seconds.")
    ask.viewer.check_subscribe("_INBOX.console")
    account = ask.viewer.account(body.account)
    payload, headers = body.payload.encode(), encode_headers(body.headers)
    started = time.monotonic()
    message = await ask.calls.request(
        ask.viewer, account, body.subject, payload, headers, seconds=body.seconds
    )
    return {
        "seconds": time.monotonic() - started,
        "subject": shown(message.subject),
        "headers": decode_headers(message.headers) if message.headers else [],
        "size": len(message.payload),
        "data": message.payload[:WHOLE_BYTES],  # base64 in JSON
        "is_cut": len(message.payload) > WHOLE_BYTES,
    }


# -- key-value


async def change_key(ask: Asking, body: OfKey, payload: bytes, headers: HeaderList) -> Document:
    """Raises Refusal, also if the key has changed since the user saw it, or is there already."""
    account = ask.viewer.account(body.account)
    subject = f"$KV.{token(body.bucket, 'bucket')}.{body.key}"
    if not is_valid_publish_subject(subject):
        raise bad_request("A key is dot-separated tokens, without spaces and wildcards.")
    stream = stream_of(ask, account, subject)
    if stream is None:
        raise not_found("There is no such bucket here. A mirror is changed at its origin.")
    expected = number(body.revision, "revision") if body.revision else None
    if expected == 0:
        expected = last_removal(stream, subject)
    if expected is not None:
        headers = [*headers, (EXPECTED, str(expected))]
    try:
        return await store(ask, account, subject, payload, encode_headers(headers))
    except Refusal as refusal:
        if "wrong last sequence" not in refusal.message:
            raise
        text = f"Somebody has changed this key in the meantime ({refusal.message}). Reload it first."
        if body.is_new:
            text = f"There is a key {quote(body.key)} already. Open it to edit it."
        raise Refusal(HTTPStatus.CONFLICT, text, err_code=refusal.err_code) from None


def last_removal(stream: Stream, subject: str) -> int:
    """The sequence that said that a key is gone: it can be added again after it. 0: there is none."""
    message = stream.log.get(stream.log.last(encode(subject)))
    if message is None or not message.headers or operation_of(decode_headers(message.headers)) == "PUT":
        return 0
    return message.seq


async def put_key(ask: Asking, body: PutKey) -> Document:
    if body.is_new and not is_valid_key(body.key):
        raise bad_request(f"A key may contain {KEY_RULE}.")
    return await change_key(ask, body, body.value.encode(), [])


async def delete_key(ask: Asking, body: OfKey) -> Document:
    return await change_key(ask, body, b"", [(OPERATION, "DEL")])


async def purge_key(ask: Asking, body: OfKey) -> Document:
    return await change_key(ask, body, b"", [(OPERATION, "PURGE"), ("Nats-Rollup", "sub")])


Body = TypeVar("Body", bound=msgspec.Struct)
Act = Callable[[Asking, bytes], Awaitable[Document]]


def reading(kind: type[Body], act: Callable[[Asking, Body], Awaitable[Document]]) -> Act:
    async def read_and_act(ask: Asking, text: bytes) -> Document:
        try:
            body = msgspec.json.decode(text, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request(f"The request cannot be read: {error}") from None
        return await act(ask, body)

    return read_and_act


ACTS: dict[str, Act] = {
    "stream.create": reading(SaveStream, create_stream),
    "stream.update": reading(SaveStream, update_stream),
    "stream.purge": reading(Purge, purge_stream),
    "stream.delete": reading(Confirmed, delete_stream),
    "message.delete": reading(OneMessage, delete_message),
    "consumer.pause": reading(Pause, pause_consumer),
    "consumer.resume": reading(OfConsumer, resume_consumer),
    "consumer.reset": reading(Reset, reset_consumer),
    "consumer.unpin": reading(Unpin, unpin_consumer),
    "consumer.delete": reading(OfConsumer, delete_consumer),
    "connection.close": reading(CloseConnection, close_connection),
    "publish": reading(Publish, publish),
    "request": reading(RequestBody, request),
    "key.put": reading(PutKey, put_key),
    "key.delete": reading(OfKey, delete_key),
    "key.purge": reading(OfKey, purge_key),
}
