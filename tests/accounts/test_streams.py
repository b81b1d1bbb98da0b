"""Each account has its own streams, API and limits."""

from __future__ import annotations

import json
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.js.errors import APIError, NotFoundError

from tests.servers import running_server

CONFIG = """
jetstream { max_mem: 1G, max_file: 1G }
accounts {
  A { users: [{user: a, password: x}], jetstream: enabled }
  B { users: [{user: b, password: x}], jetstream: { max_streams: 1 } }
  C { users: [{user: c, password: x}] }
}
authorization { users: [{user: g, password: x}] }
"""


async def connect(port: int, user: str) -> Client:
    return await nats.connect(f"nats://{user}:x@127.0.0.1:{port}", allow_reconnect=False)


async def test_streams_of_the_same_name_in_two_accounts(tmp_path: Path) -> None:
    for turn in (1, 2):  # the second time they are recovered
        with running_server("headrace", CONFIG, ["-sd", str(tmp_path)]) as server:
            a, b = await connect(server.port, "a"), await connect(server.port, "b")
            for client, body in ((a, b"in a"), (b, b"in b")):
                jetstream = client.jetstream()
                await jetstream.add_stream(name="S", subjects=["s.>"])
                assert (await jetstream.publish("s.x", body)).seq == turn
            for client, body in ((a, b"in a"), (b, b"in b")):
                message = await client.jetstream().get_msg("S", turn)
                assert message.data == body
                found = await client.jetstream().find_stream_name_by_subject("s.1")
                assert found == "S"
            with pytest.raises(APIError) as caught:
                await b.jetstream().add_stream(name="T", subjects=["t"])
            assert caught.value.err_code == 10027
            await a.jetstream().add_stream(name=f"T{turn}", subjects=[f"t{turn}"])
            assert (await b.jetstream().account_info()).streams == 1
            with pytest.raises(NotFoundError):
                await b.jetstream().stream_info(f"T{turn}")
            await a.close()
            await b.close()
    assert (tmp_path / "jetstream" / "A" / "streams" / "S").is_dir()
    assert (tmp_path / "jetstream" / "B" / "streams" / "S").is_dir()
    assert not (tmp_path / "jetstream" / "C").exists()
    assert not (tmp_path / "jetstream" / "$G").exists()


async def test_an_account_that_did_not_ask_for_streams_has_none(tmp_path: Path) -> None:
    with running_server("headrace", CONFIG, ["-sd", str(tmp_path)]) as server:
        for user in ("c", "g"):
            client = await connect(server.port, user)
            answer = json.loads((await client.request("$JS.API.INFO", b"")).data)
            assert answer["error"]["err_code"] == 10039
            await client.close()
