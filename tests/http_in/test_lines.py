"""Many messages in one request."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Server
from headrace.http_in.lines import MAX_LINES, read_line, split_lines
from headrace.http_in.message import BadMessage
from headrace.streams import headers
from tests.http_in.requests import NDJSON, ndjson, post
from tests.http_in.streams import count, message


def test_each_line_has_an_answer_in_order(server: Server) -> None:
    lines = [{"subject": f"orders.{k}", "json": {"k": k}} for k in range(1000)]
    reply = post(f"{server.http_in_url}", ndjson(*lines), NDJSON)
    assert (reply.status, reply.headers["content-type"]) == (200, "application/x-ndjson")
    assert reply.lines == [{"stream": "ORDERS", "seq": k + 1} for k in range(1000)]
    stored = message(server.url, 617)
    assert (stored.subject, stored.data) == ("orders.616", b'{"k": 616}')


def test_the_path_is_the_subject_of_lines_that_have_none(server: Server) -> None:
    reply = post(f"{server.http_in_url}orders.eu", b'{"data": "a"}\n\n  \n{"subject": "orders.us"}', NDJSON)
    assert [line["seq"] for line in reply.lines] == [1, 2]
    assert (message(server.url, 1).subject, message(server.url, 1).data) == ("orders.eu", b"a")
    assert (message(server.url, 2).subject, message(server.url, 2).data) == ("orders.us", None)
    assert post(server.http_in_url.removesuffix("/"), b'{"subject": "orders.x"}', NDJSON).status == 200


def test_a_wrong_line_does_not_stop_the_others(server: Server) -> None:
    body = b'{"data": "a"}\nnot json\n{"subject": "none"}\n{"subject": "a b"}\n'
    body += b'{"dat": 1}\n{"data": "b", "id": "x"}\n'
    answers = post(f"{server.http_in_url}orders.eu", body, NDJSON).lines
    codes = [line.get("error", {}).get("code", line.get("seq")) for line in answers]
    assert codes == [1, 400, 404, 400, 400, 2]


def test_ids_and_headers(server: Server) -> None:
    lines = [{"id": "a"}, {"id": "a"}, {"headers": {"Trace": ["1", "2"], "Nats-Expected-Last-Sequence": "9"}}]
    lines += [{"headers": {"Trace": "ä"}}]
    answers = post(f"{server.http_in_url}orders.eu", ndjson(*lines), NDJSON).lines
    assert answers[:2] == [{"stream": "ORDERS", "seq": 1}, {"stream": "ORDERS", "seq": 1, "duplicate": True}]
    assert answers[2]["error"]["err_code"] == 10071
    assert base64.b64decode(message(server.url, 2).hdrs or "") == "NATS/1.0\r\nTrace: ä\r\n\r\n".encode()


def test_without_acknowledgement(server: Server) -> None:
    reply = post(f"{server.http_in_url}none?ack=no", ndjson(*[{"data": "x"}] * 300), NDJSON)
    assert reply.lines == [{"accepted": True}] * 300


def test_an_empty_body_has_no_answers(server: Server) -> None:
    reply = post(f"{server.http_in_url}orders.eu", b"\n\n", NDJSON)
    assert (reply.status, reply.body) == (200, b"")


def test_headers_of_the_request_belong_to_no_line(server: Server) -> None:
    assert post(f"{server.http_in_url}orders.eu", b"{}", {**NDJSON, "Nats-Msg-Id": "a"}).status == 400


@pytest.mark.parametrize("body", [b"{}\n" * (MAX_LINES + 1), b"\n" * 8_000_000, b"{}" + b"\n" * 1_000_000])
def test_too_many_lines_publish_nothing(server: Server, body: bytes) -> None:
    assert post(f"{server.http_in_url}orders.eu", body, NDJSON).status == 400
    assert count(server.url) == 0


def test_large_lines_go_through_the_window(server: Server) -> None:
    lines = [{"data": "x" * 500_000, "id": str(k)} for k in range(12)]
    reply = post(f"{server.http_in_url}orders.eu", ndjson(*lines), NDJSON)
    assert [line["seq"] for line in reply.lines] == list(range(1, 13))


TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "subject": st.text("ab.*> \r\n\0é", max_size=8),
            "data": TEXTS,
            "headers": st.dictionaries(
                st.text("aB-: \r\n\0é", max_size=6), TEXTS | st.lists(TEXTS, max_size=3), max_size=3
            ),
            "id": TEXTS,
        },
    )
)
@settings(max_examples=400)
def test_no_line_can_inject_anything(line: dict[str, Any]) -> None:
    """What is accepted is one operation: it reads back as what was in the line, and as nothing else."""
    try:
        made = read_line(json.dumps(line).encode(), b"default")
    except BadMessage:
        return
    control, *rest = b"".join(made.encode(b"_INBOX.1")).split(b"\r\n", 1)
    words = control.split(b" ")
    assert words[1] == line.get("subject", "default").encode()
    assert words[2] == b"_INBOX.1"
    assert int(words[-1]) + 2 == len(rest[0])
    assert made.payload == line.get("data", "").encode()
    sent = [(name, value) for name, values in line.get("headers", {}).items() for value in as_list(values)]
    sent += [("Nats-Msg-Id", line["id"])] if "id" in line else []
    assert made.headers.count(b"\r\n") == (len(sent) + 2 if sent else 0)
    for name, value in sent:
        assert f"\r\n{name}: {value}\r\n".encode() in made.headers
    if "id" in line:
        assert headers.get(made.headers, b"Nats-Msg-Id") is not None


def as_list(values: str | list[str]) -> list[str]:
    return [values] if isinstance(values, str) else values


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_an_error(line: bytes) -> None:
    for part in split_lines(line):
        with suppress(BadMessage):
            read_line(part, b"a")


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"json":' * 50_000,
        b'{"headers":{"a":1}}',
        b'{"data":"a","json":1}',
        b'{"data_base64":"a"}',
        b'{"data_base64":"a b="}',
        b'{"data":"\\ud800"}',
        b'{"id":"a\\r\\nb"}',
        b'{"headers":{"a:b":"c"}}',
        b'{"headers":{"":"c"}}',
        b'{"subject":""}',
        b'{"subject":null}x',
        b'"x"',
        b"\xff",
    ],
)
def test_hostile_lines_are_refused(line: bytes) -> None:
    with pytest.raises(BadMessage):
        read_line(line, b"a")


def test_payloads_have_three_forms() -> None:
    assert read_line(b'{"data":"\\u00e4"}', b"a").payload == "ä".encode()
    assert read_line(b'{"json":  {"a":  1}}', b"a").payload == b'{"a":  1}'
    assert read_line(b'{"json":null}', b"a").payload == b"null"
    assert read_line(b'{"data_base64":"%b"}' % base64.b64encode(b"\0\xff"), b"a").payload == b"\0\xff"
