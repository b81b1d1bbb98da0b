"""What is on disk is there again after the server was killed; what is damaged is reported and left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.streams.peers import ask, client_of, jetstream_server

STREAMS = Path("jetstream", "$G", "streams")


async def describe(client: Any) -> dict[str, Any]:
    """Everything that the server tells about its streams."""
    names = (await ask(client, "STREAM.NAMES"))["streams"] or []
    return {name: await ask(client, f"STREAM.INFO.{name}", {"deleted_details": True}) for name in names}


async def test_streams_survive_a_kill(tmp_path: Path) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            config = {"name": "A", "subjects": ["a.*"], "max_msgs": 100, "persist_mode": "default"}
            await ask(client, "STREAM.CREATE.A", config)
            await ask(client, "STREAM.CREATE.B", {"name": "B", "first_seq": 50})
            await ask(client, "STREAM.CREATE.C", {"name": "C"})
            await ask(client, "STREAM.CREATE.M", {"name": "M", "storage": "memory"})
            for number in range(20):
                acknowledged = await client.request(f"a.{number % 3}", f"{number}".encode(), timeout=30)
                assert json.loads(acknowledged.data)["seq"] == number + 1
            await client.request("B", b"one", timeout=30)
            await ask(client, "STREAM.MSG.DELETE.A", {"seq": 7})
            await ask(client, "STREAM.PURGE.A", {"seq": 3})
            await ask(client, "STREAM.UPDATE.A", {**config, "description": "changed", "max_msgs": 10})
            await ask(client, "STREAM.DELETE.C")
            before = await describe(client)
            del before["M"]  # memory does not outlive the process
            server.process.kill()
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            assert await describe(client) == before
            assert before["A"]["config"]["description"] == "changed"
            message = await ask(client, "STREAM.MSG.GET.A", {"last_by_subj": "a.1"})
            assert message["message"]["seq"] == 20
            acknowledged = await client.request("B", b"two", timeout=30)
            assert json.loads(acknowledged.data) == {"stream": "B", "seq": 51}
    assert not (tmp_path / STREAMS / "C").exists()


async def test_a_stop_in_order_keeps_everything(tmp_path: Path) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await ask(client, "STREAM.CREATE.A", {"name": "A", "compression": "s2"})
            for _ in range(100):
                await client.request("A", b"x" * 1000, timeout=30)
            before = await describe(client)
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            assert await describe(client) == before


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
async def test_a_damaged_configuration_is_reported_and_left_alone(tmp_path: Path, damage: str) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            for name in ("A", "B"):
                await ask(client, f"STREAM.CREATE.{name}", {"name": name})
                await client.request(name, b"one", timeout=30)
    meta = tmp_path / STREAMS / "A" / "meta.json"
    data = bytearray(meta.read_bytes())
    data[len(data) // 2] ^= 1
    meta.write_bytes({"flip": bytes(data), "cut": bytes(data[:-5]), "empty": b""}[damage])
    files = {path: path.read_bytes() for path in (tmp_path / STREAMS / "A").rglob("*") if path.is_file()}
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            assert (await ask(client, "STREAM.NAMES"))["streams"] == ["B"]
            refused = await ask(client, "STREAM.CREATE.A", {"name": "A"})
            assert refused["error"]["code"] == 500, "its place is taken by what may still be saved"
        assert "left alone" in server.log()
    assert {path: path.read_bytes() for path in files} == files


async def test_what_a_cut_short_creation_left_is_in_nobodys_way(tmp_path: Path) -> None:
    leftover = tmp_path / STREAMS / "A"
    (leftover / "msgs").mkdir(parents=True)
    (leftover / "meta.json.new").write_bytes(b"headrace 1")
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            assert (await ask(client, "STREAM.NAMES"))["streams"] is None
            assert (await ask(client, "STREAM.CREATE.A", {"name": "A"}))["did_create"]
            assert json.loads((await client.request("A", b"one", timeout=30)).data)["seq"] == 1


async def test_a_deletion_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            await ask(client, "STREAM.CREATE.A", {"name": "A"})
    (tmp_path / STREAMS / "A").rename(tmp_path / STREAMS / ".deleted-A-1")
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            assert (await ask(client, "STREAM.NAMES"))["streams"] is None
    assert list((tmp_path / STREAMS).iterdir()) == []
