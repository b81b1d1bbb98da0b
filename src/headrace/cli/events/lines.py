"""An event as a line: when, what, and what it is about.

    2026-11-16 20:30:00  stream create       ORDERS

What an event is says its type; those that are not in the table are shown with all their fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.cli.human import duration
from headrace.cli.jetstream.shown import local_time
from headrace.cli.output import one_line, plural
from headrace.client.api import parse_time

if TYPE_CHECKING:
    from nats.aio.msg import Msg

Event = dict[str, Any]
TITLE_WIDTH = 22
NOT_SHOWN = ("type", "id", "timestamp", "schema")


def json_line(number: int, message: Msg) -> bytes:
    """The event itself, on one line."""
    event = _decoded(message)
    if event is None:
        event = {"subject": message.subject, "data": message.data.decode(errors="replace")}
    return json.dumps(event, ensure_ascii=False).encode(errors="replace") + b"\n"


def line(number: int, message: Msg) -> bytes:
    event = _decoded(message)
    if event is None:
        return f"{message.subject}: {one_line(message.data.decode(errors='replace'))}\n".encode(
            errors="replace"
        )
    title, details = _describe(str(event.get("type", "")), event, message.subject)
    server = event.get("server")
    moment = parse_time(
        str(event.get("timestamp") or (server.get("time") if isinstance(server, dict) else ""))
    )
    time = local_time(moment) if moment else " " * 19
    text = f"{time}  {title:<{TITLE_WIDTH}}{details}".rstrip()
    return (one_line(text) + "\n").encode(errors="replace")


def _decoded(message: Msg) -> Event | None:
    try:
        event = json.loads(message.data)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _describe(kind: str, event: Event, subject: str) -> tuple[str, str]:
    short = kind.rpartition(".")[2]
    if short in _KINDS:
        try:
            title, details = _KINDS[short]
            if subject.endswith(".CLIENT.AUTH.ERR"):
                title = "auth error"
            return title(event) if callable(title) else title, details(event)
        except (KeyError, TypeError, ValueError, AttributeError):
            pass  # not the fields that the type promises: show what there is
    if not kind and subject.startswith("$SYS."):
        short = subject.split(".", 3)[-1].lower()
    return short.replace("_", " ").replace(".", " ") or subject, _fields(event)


def _fields(event: Event) -> str:
    shown = {name: value for name, value in event.items() if name not in NOT_SHOWN}
    return " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in shown.items())


def _client(client: Event) -> str:
    """`cid 7 "shop" of $G at 127.0.0.1, user anna`"""
    name = f' "{client["name"]}"' if client.get("name") else ""
    user = f", user {client['user']}" if client.get("user") else ""
    language = f", {client['lang']} {client.get('ver', '')}".rstrip() if client.get("lang") else ""
    account = f" of {client['acc']}" if client.get("acc") else ""
    return f"cid {client.get('id', '?')}{name}{account} at {client.get('host', '?')}{user}{language}"


def _consumer(event: Event) -> str:
    return f"{event['stream']} > {event['consumer']}"


def _message(event: Event) -> str:
    return f"{_consumer(event)}: message {event['stream_seq']}, {event.get('deliveries', 0)} deliveries"


def _leader(event: Event) -> str:
    what = f" > {event['consumer']}" if event.get("consumer") else ""
    return f"{event['stream']}{what}: {event.get('leader') or 'no leader'}"


def _audit(event: Event) -> str:
    try:
        failure = (json.loads(event.get("response") or "{}").get("error") or {}).get("description", "")
    except (ValueError, AttributeError):
        failure = ""
    return f"{event['subject']} by {_client(event['client'])}" + (f": {failure}" if failure else "")


def _pause(event: Event) -> str:
    until = f" until {event['pause_until']}" if event.get("paused") else ""
    return f"{_consumer(event)}{until}"


def _disconnect(event: Event) -> str:
    sent, received = event.get("sent") or {}, event.get("received") or {}
    counts = f"{plural(sent.get('msgs', 0), 'message')} sent, {received.get('msgs', 0):,} received"
    return f"{_client(event['client'])}: {event.get('reason', '')} ({counts})"


Title = str | Callable[[Event], str]
_KINDS: dict[str, tuple[Title, Callable[[Event], str]]] = {
    "api_audit": ("api", _audit),
    "stream_action": (lambda event: f"stream {event['action']}", lambda event: str(event["stream"])),
    "consumer_action": (lambda event: f"consumer {event['action']}", _consumer),
    "max_deliver": ("max deliveries", _message),
    "terminated": ("terminated", lambda event: f"{_message(event)} {event.get('reason', '')}".rstrip()),
    "nak": ("nak", _message),
    "consumer_ack": (
        "ack",
        lambda event: f"{_message(event)}, acknowledged after {duration(int(event['ack_time']))}",
    ),
    "consumer_pause": (lambda event: f"consumer {'pause' if event.get('paused') else 'resume'}", _pause),
    "snapshot_create": ("backup begins", lambda event: str(event["stream"])),
    "snapshot_complete": ("backup ends", lambda event: str(event["stream"])),
    "restore_create": ("restore begins", lambda event: str(event["stream"])),
    "restore_complete": ("restore ends", lambda event: str(event["stream"])),
    "stream_leader_elected": ("stream leader", _leader),
    "consumer_leader_elected": ("consumer leader", _leader),
    "stream_quorum_lost": ("stream quorum lost", _leader),
    "consumer_quorum_lost": ("consumer quorum lost", _leader),
    "client_connect": ("connect", lambda event: _client(event["client"])),
    "client_disconnect": ("disconnect", _disconnect),
    "account_connections": (
        "connections",
        lambda event: (
            f"{event['acc']}: {event.get('conns', 0)}, {event.get('num_subscriptions', 0)} subscriptions"
        ),
    ),
}
"""By the last part of the type: what happened, and to what."""
