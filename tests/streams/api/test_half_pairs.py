r"""Text that cannot be encoded: `\ud800`, half a surrogate pair, in JSON, and subjects that are not UTF-8.

Every request is answered, and so are those behind it.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.servers import Server
from tests.streams.peers import API, Peers, ask, client_of, jetstream_server

HALF = r"\ud800"
BODIES = (
    '{"%s": 1}',
    '{"%s": {"%s": ["%s"]}, "name": "A"}',
    '{"name": "A%s"}',
    '{"name": "A", "subjects": ["%s"], "%s": 1}',
    '{"name": "A", "max_msgs": "%s"}',
    '{"name": "A", "metadata": {"%s": 1}}',
    '{"name": "A", "subjects": ["%s"], "description": "%s", "metadata": {"a%s": "%sb"}}',
)
HALVES = (HALF, r"\udc00", r"\uDFFF\uD800", r"\ud800\ud801\udc00", r"\ud83d\ude00", r"\\ud800")


@pytest.mark.parametrize("half", HALVES)
async def test_half_a_pair_is_a_replacement_character_as_in_nats_server(peers: Peers, half: str) -> None:
    for body in BODIES:
        await peers.ask("STREAM.CREATE.A", body.replace("%s", half))
        await peers.ask("STREAM.INFO.A")
    start = f'"deliver_policy": "by_start_time", "opt_start_time": "{half}"'
    await peers.ask("CONSUMER.CREATE.A.c", f'{{"stream_name": "A", "config": {{"name": "c", {start}}}}}')
    await peers.ask("STREAM.DELETE.A")


async def test_words_of_which_one_is_expected_are_refused_with_half_a_pair(tmp_path: Path) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            for word in ("retention", "storage", "discard"):
                answer = await ask(client, "STREAM.CREATE.A", f'{{"name": "A", "{word}": "{HALF}"}}')
                assert answer["error"]["err_code"] == 10025
                assert "\ufffd" in answer["error"]["description"]


def answer_to(server: Server, subject: bytes, body: bytes) -> bytes:
    """The first line after MSG: nats-py sends no subject that is not UTF-8."""
    with socket.create_connection((server.host, server.port), 30) as client:
        client.sendall(b'CONNECT {"verbose":false}\r\nSUB r 1\r\n')
        client.sendall(b"PUB %b r %d\r\n%b\r\n" % (subject, len(body), body))
        lines = client.makefile("rb")
        for line in lines:
            if line.startswith(b"MSG r"):
                return lines.readline()
        raise AssertionError("no answer")


@pytest.mark.parametrize("name", [b"\xc3x", b"\xff"])
async def test_a_subject_that_is_not_utf8_is_answered_and_audited(tmp_path: Path, name: bytes) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await ask(client, "STREAM.CREATE.S", {"name": "S"})
            audit = await client.subscribe("$JS.EVENT.ADVISORY.API")
            await client.flush()
            for head, body in (
                ("CONSUMER.CREATE.", b"{}"),
                ("CONSUMER.CREATE.S.", b'{"stream_name": "S"}'),
                ("STREAM.CREATE.", b"{}"),
                ("STREAM.INFO.", b""),
            ):
                for _ in range(2):
                    answer = json.loads(answer_to(server, API.encode() + head.encode() + name, body))
                    assert answer["error"]["description"] != "internal error"
                    event = json.loads((await audit.next_msg(timeout=30)).data)
                    assert event["subject"] == API + head + name.decode(errors="replace")
