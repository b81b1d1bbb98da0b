"""Direct get: one message, the last of a subject, the next few, the last of many."""

from __future__ import annotations

import json
from typing import Any

import nats.errors
import pytest

from tests.streams.api.test_messages import FAR_AWAY, GETS, LONG_AGO
from tests.streams.api.test_stream_requests import publish_some
from tests.streams.peers import Peers, normalise_headers


@pytest.fixture
async def filled(peers: Peers) -> Peers:
    """A stream M with twenty messages on three subjects, one of them deleted."""
    await peers.ask("STREAM.CREATE.M", {"name": "M", "subjects": ["m.>"], "allow_direct": True})
    await publish_some(peers, 20)
    await peers.ask("STREAM.MSG.DELETE.M", {"seq": 4})
    return peers


async def get_one(peers: Peers, subject: str, body: str) -> tuple[dict[str, str], bytes]:
    found = []
    for client in (peers.real, peers.ours):
        answer = await client.request(f"$JS.API.DIRECT.GET.{subject}", body.encode(), timeout=30)
        found.append((normalise_headers(answer.headers), answer.data))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("request_body", GETS, ids=str)
async def test_one_message(filled: Peers, request_body: dict[str, Any]) -> None:
    await get_one(filled, "M", json.dumps(request_body))


@pytest.mark.parametrize("body", ["", "text", "{}", '{"seq":1}', '{"no_hdr":true}', '{"batch":1}'])
@pytest.mark.parametrize("subject", ["M", "M.m.1", "M.m.none"])
async def test_odd_requests(filled: Peers, subject: str, body: str) -> None:
    await get_one(filled, subject, body)


async def test_the_last_of_a_subject_says_where_it_is(filled: Peers) -> None:
    headers, payload = await get_one(filled, "M.m.1", "")
    assert payload == b"payload 19"
    assert headers["Nats-Sequence"] == "20"
    assert headers["Nats-Subject"] == "m.1"
    assert headers["key"] == "19"


BATCHES: list[dict[str, Any]] = [
    {"batch": 3, "seq": 1},
    {"batch": 3, "seq": 3},
    {"batch": 100, "seq": 1},
    {"batch": 1, "seq": 4},
    {"batch": 3, "next_by_subj": "m.1"},
    {"batch": 3, "next_by_subj": "m.*", "seq": 15},
    {"batch": 30, "next_by_subj": "m.*", "seq": 15},
    {"batch": 3, "next_by_subj": "none", "seq": 1},
    {"batch": 30, "seq": 1, "max_bytes": 20},
    {"batch": 5, "seq": 100},
    {"batch": -1, "seq": 1},
    {"batch": 5},
    {"batch": 5, "start_time": LONG_AGO},
    {"batch": 5, "start_time": FAR_AWAY},
    {"batch": 4, "last_by_subj": "m.1"},
    {"batch": 2, "seq": 1, "no_hdr": True},
    {"multi_last": ["m.*"]},
    {"multi_last": ["m.1", "m.2"]},
    {"multi_last": ["m.1", "m.*"]},
    {"multi_last": ["none"]},
    {"multi_last": ["m.*"], "up_to_seq": 8},
    {"multi_last": ["m.*"], "up_to_seq": 1},
    {"multi_last": ["m.*"], "batch": 2},
    {"multi_last": ["m.*"], "seq": 19},
    {"multi_last": ["m.*"], "max_bytes": 8},
    {"multi_last": ["m.*"], "up_to_time": LONG_AGO},
    {"multi_last": ["m.*"], "up_to_time": FAR_AWAY},
    {"multi_last": ["m.*"], "up_to_time": FAR_AWAY, "up_to_seq": 4},
    {"multi_last": ["m.*"], "last_by_subj": "m.1"},
    {"multi_last": ["m.*"], "next_by_subj": "m.1"},
]


@pytest.mark.parametrize("request_body", BATCHES, ids=str)
async def test_several_messages(filled: Peers, request_body: dict[str, Any]) -> None:
    messages = await filled.collect("DIRECT.GET.M", request_body)
    assert messages[-1][0]["Status"] in ("204", "404", "408")


async def test_too_many_subjects_are_refused(peers: Peers) -> None:
    config = {"name": "M", "subjects": ["m.>"], "allow_direct": True, "storage": "memory"}
    await peers.ask("STREAM.CREATE.M", config)
    for client in (peers.real, peers.ours):
        for number in range(1025):
            await client.publish(f"m.{number}", b"")
        await client.flush()
    await peers.publish("m.last", "")
    (answer,) = await peers.collect("DIRECT.GET.M", {"multi_last": ["m.*"]})
    assert answer[0]["Status"] == "413"


async def test_a_stream_that_does_not_allow_it_has_no_responder(peers: Peers) -> None:
    await peers.ask("STREAM.CREATE.M", {"name": "M"})
    for client in (peers.real, peers.ours):
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request("$JS.API.DIRECT.GET.M", b'{"seq":1}', timeout=30)
    await peers.ask("STREAM.UPDATE.M", {"name": "M", "allow_direct": True})
    assert (await get_one(peers, "M", '{"seq":1}'))[0]["Status"] == "404"
    await peers.ask("STREAM.UPDATE.M", {"name": "M"})
    with pytest.raises(nats.errors.NoRespondersError):
        await peers.ours.request("$JS.API.DIRECT.GET.M", b'{"seq":1}', timeout=30)
