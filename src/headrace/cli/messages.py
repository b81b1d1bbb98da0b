"""How a received message is written to stdout.

[1] greet.anna: Hello               by default; headers follow, indented
{"subject": "greet.anna", ...}      --json: one object per line
Hello                               --raw: the payload, byte for byte
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from headrace.cli.output import one_line, plural, printable

if TYPE_CHECKING:
    from nats.aio.msg import Msg

SHOWN_BINARY_BYTES = 32
INDENT = "\n    "

Format = Callable[[int, "Msg"], bytes]
"""From the number of a message, starting with 1, and the message to its output."""


def choose_format(*, raw: bool, as_json: bool, headers_only: bool) -> Format:
    if raw and as_json:
        raise click.UsageError("use either --raw or --json, not both")
    if raw and headers_only:
        raise click.UsageError("use either --raw or --headers-only, not both")
    if raw:
        return format_raw
    if as_json:
        return format_json_without_data if headers_only else format_json
    return format_human_without_data if headers_only else format_human


def format_raw(number: int, message: Msg) -> bytes:
    return message.data


def format_json(number: int, message: Msg) -> bytes:
    fields = _json_fields(message)
    try:
        fields["data"] = message.data.decode()
    except UnicodeDecodeError:
        fields["data_base64"] = base64.b64encode(message.data).decode()
    return _json_line(fields)


def format_json_without_data(number: int, message: Msg) -> bytes:
    return _json_line(_json_fields(message))


def format_human(number: int, message: Msg) -> bytes:
    lines = [f"{_human_start(number, message)}: {_show_data(message.data)}", *_human_headers(message)]
    return (INDENT.join(lines) + "\n").encode(errors="replace")


def format_human_without_data(number: int, message: Msg) -> bytes:
    start = f"{_human_start(number, message)}: {plural(len(message.data), 'byte')}"
    return (INDENT.join([start, *_human_headers(message)]) + "\n").encode(errors="replace")


def _json_fields(message: Msg) -> dict[str, object]:
    return {
        "subject": message.subject,
        "reply": message.reply or None,
        "headers": message.headers or {},
        "size": len(message.data),
    }


def _json_line(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode(errors="replace") + b"\n"


def _human_start(number: int, message: Msg) -> str:
    reply = f" (reply to {one_line(message.reply)})" if message.reply else ""
    return f"[{number}] {one_line(message.subject)}{reply}"


def _human_headers(message: Msg) -> list[str]:
    return [f"{one_line(name)}: {one_line(str(value))}" for name, value in (message.headers or {}).items()]


def _show_data(data: bytes) -> str:
    try:
        return INDENT.join(printable(data.decode()).splitlines())
    except UnicodeDecodeError:
        more = " ..." if len(data) > SHOWN_BINARY_BYTES else ""
        return f"<{plural(len(data), 'byte')}: {data[:SHOWN_BINARY_BYTES].hex(' ')}{more}>"
