"""`headrace request`, with services made of nats-py."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nats import connect
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.cli.commands import Result, assert_one_error_line, run
from tests.clients import flush


@asynccontextmanager
async def service(url: str, subject: str, *answers: bytes, queue: str = "") -> AsyncIterator[Client]:
    """Answers every request with all of `answers`, each followed by the request's data, and its headers."""
    client = await connect(url)

    async def on_request(message: Msg) -> None:
        for answer in answers:
            await client.publish(message.reply, answer + message.data, headers=message.headers)

    await client.subscribe(subject, queue, cb=on_request)
    await flush(client)
    try:
        yield client
    finally:
        await client.close()


async def request(url: str, *arguments: str, stdin: bytes | None = None) -> Result:
    return await asyncio.to_thread(run, "request", "-s", url, *arguments, stdin=stdin)


async def test_the_answer_is_printed(url: str) -> None:
    async with service(url, "echo", b"you said "):
        result = await request(url, "echo", "hi")
    assert (result.code, result.errors) == (0, "")
    assert result.text.startswith("[1] _INBOX.")
    assert result.text.endswith(": you said hi\n")


async def test_raw_and_piped(url: str) -> None:
    async with service(url, "echo", b""):
        result = await request(url, "echo", "--raw", stdin=bytes(range(256)))
    assert (result.code, result.output, result.errors) == (0, bytes(range(256)), "")


async def test_json_and_headers(url: str) -> None:
    async with service(url, "echo", b""):
        result = await request(url, "echo", "x", "--json", "-H", "Trace-Id: 7")
    answer = json.loads(result.text)
    assert answer.pop("subject").startswith("_INBOX.")
    assert answer == {"reply": None, "headers": {"Trace-Id": "7"}, "size": 1, "data": "x"}


async def test_several_answers(url: str) -> None:
    async with service(url, "many", b"1", b"2", b"3"):
        three = await request(url, "many", "--replies", "3", "--raw")
        all_of_them = await request(url, "many", "--count", "0", "--timeout", "2.5", "--raw")
        too_many = await request(url, "many", "--replies", "4", "--timeout", "2.5", "--raw")
    assert (three.code, three.output) == (0, b"123")
    assert (all_of_them.code, all_of_them.output) == (0, b"123")
    assert (too_many.code, too_many.output) == (1, b"123")
    assert too_many.errors == "headrace: only 3 of 4 replies from many within 2.5 s\n"


async def test_nobody_answers(url: str) -> None:
    result = await request(url, "nobody.there", "x")
    assert_one_error_line(result, "no responders on nobody.there")


async def test_no_answer_in_time(url: str) -> None:
    async with service(url, "silent"):
        result = await request(url, "silent", "x", "--timeout", "0.3")
    assert_one_error_line(result, "no reply from silent within 0.3 s")


async def test_an_empty_answer_is_an_answer(url: str) -> None:
    async with service(url, "empty", b""):
        result = await request(url, "empty", "--raw")
    assert (result.code, result.output, result.errors) == (0, b"", "")
