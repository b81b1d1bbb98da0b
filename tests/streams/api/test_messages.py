"""Reading single messages through the API."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.streams.peers import Peers

LONG_AGO, FAR_AWAY = "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"
GETS: list[dict[str, Any]] = [
    {"seq": 1},
    {"seq": 2},
    {"seq": 4},
    {"seq": 99},
    {"seq": -1},
    {"last_by_subj": "m.1"},
    {"last_by_subj": "m.*"},
    {"last_by_subj": "none"},
    {"next_by_subj": "m.2"},
    {"next_by_subj": "m.2", "seq": 4},
    {"next_by_subj": "m.2", "seq": 99},
    {"start_time": LONG_AGO},
    {"start_time": FAR_AWAY},
    {"start_time": LONG_AGO, "next_by_subj": "m.1"},
    {"seq": 1, "start_time": LONG_AGO},
    {"seq": 1, "last_by_subj": "m.1"},
    {"seq": 1, "no_hdr": True},
    {"seq": 2, "no_hdr": True},
    {"last_by_subj": "m.1", "next_by_subj": "m.1"},
    {"seq": 0, "next_by_subj": ""},
    {"unknown": 1},
    {},
]


async def fill(peers: Peers, storage: str) -> None:
    """A stream M with ten messages on three subjects; the fourth is deleted."""
    await peers.ask("STREAM.CREATE.M", {"name": "M", "subjects": ["m.>"], "storage": storage})
    for number in range(10):
        await peers.publish(f"m.{number % 3}", f"payload {number}", {"key": "x"} if number % 2 else None)
    await peers.ask("STREAM.MSG.DELETE.M", {"seq": 4})


@pytest.mark.parametrize("storage", ["file", "memory"])
async def test_a_message_is_got_as_from_nats_server(peers: Peers, storage: str) -> None:
    await fill(peers, storage)
    for request in [*GETS, {"batch": 3}, {"seq": 1, "max_bytes": 5}, {"multi_last": ["m.1"]}]:
        await peers.ask("STREAM.MSG.GET.M", request)


async def test_headers_and_payload_come_back_byte_for_byte(peers: Peers) -> None:
    await fill(peers, "file")
    message = (await peers.ask("STREAM.MSG.GET.M", {"seq": 2}))["message"]
    assert base64.b64decode(message["data"]) == b"payload 1"
    assert base64.b64decode(message["hdrs"]).startswith(b"NATS/1.0\r\nkey: x\r\n")


async def test_an_empty_payload_is_left_out(peers: Peers) -> None:
    await peers.ask("STREAM.CREATE.A", {"name": "A"})
    await peers.publish("A", "")
    assert "data" not in (await peers.ask("STREAM.MSG.GET.A", {"seq": 1}))["message"]
