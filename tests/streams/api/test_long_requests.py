"""Requests as long as a message may be: explained as nats-server does, or refused if they would take long."""

from __future__ import annotations

import json

import pytest

from headrace.engine.streams.json_syntax import examine
from headrace.streams.api.json_requests import MAX_WEIGHT, TOO_MANY_VALUES, decode
from headrace.streams.api.message_lookup import MessageGetRequest
from headrace.streams.api.stream_requests import StreamInfoRequest
from headrace.streams.errors import ApiError
from tests.streams.peers import Peers

FIELDS = ",".join(['"unknown":[1,true,null,"text \\u00e9"]'] * 20_000)
BROKEN = {
    "end": "{" + FIELDS,
    "comma": "{" + FIELDS + ",}",
    "literal": "{" + FIELDS + ',"x":trux}',
    "number": "{" + FIELDS + ',"x":01}',
    "escape": "{" + FIELDS + ',"x":"\\y"}',
    "brace": "{" + FIELDS + "]",
    "control": "{" + FIELDS + ',"x":"\n"}',
    "key": "{" + FIELDS + ",x:1}",
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
async def test_what_is_wrong_at_the_end_of_a_long_request_is_told(peers: Peers, body: str) -> None:
    await peers.ask("STREAM.CREATE.A", {"name": "A", "subjects": ["a.*"]})
    await peers.ask("STREAM.INFO.A", body)


@pytest.mark.parametrize("body", ["{}" * 270_000, "[" * 9_000 + "]" * 9_000, "{" + FIELDS + "}"])
def test_a_request_of_very_many_values_is_refused_before_it_is_decoded(body: str) -> None:
    assert examine(body.encode())[1] > MAX_WEIGHT
    with pytest.raises(ApiError, match=TOO_MANY_VALUES):
        decode(body.encode(), StreamInfoRequest, strict=False)


def test_thousands_of_subjects_are_not_too_many() -> None:
    subjects = [f"orders.{number}.é" for number in range(9_000)]
    body = json.dumps({"multi_last": subjects}).encode()
    assert decode(body, MessageGetRequest).multi_last == subjects
