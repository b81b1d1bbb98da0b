"""A server that gets no more memory: publishers get errors and stay, and acknowledged messages are kept."""

from __future__ import annotations

import json
import resource
from contextlib import closing
from pathlib import Path

import pytest

from tests.adversity.recorder import Connection
from tests.sanitizers import ARE_AT_WORK
from tests.servers import Server
from tests.streams.peers import jetstream_server

PAYLOAD = b"x" * 60_000
SPARE_BYTES = 48 * 1024 * 1024
BATCH = 10
ROUNDS = 200


def limit_memory(server: Server, spare: int) -> None:
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + spare
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


@pytest.mark.skipif(ARE_AT_WORK, reason="the sanitizers map terabytes, and have an allocator of their own")
@pytest.mark.parametrize("plain", [True, False], ids=["engine", "python"])
def test_publishers_get_an_error_when_memory_is_used_up(tmp_path: Path, plain: bool) -> None:
    with (
        jetstream_server("headrace", tmp_path) as server,
        closing(Connection(server.port)) as publisher,
        closing(Connection(server.port)) as bystander,
    ):
        created = publisher.request(
            "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "storage": "memory"}
        )
        assert "error" not in created
        limit_memory(server, SPARE_BYTES)
        publisher.send(b"SUB r 1\r\n")
        headers = b"NATS/1.0\r\n%b\r\n" % (b"" if plain else b"Nats-Expected-Stream: S\r\n")
        sizes = (len(headers), len(headers) + len(PAYLOAD))
        frame = b"HPUB s r %d %d\r\n%b%b\r\n" % (*sizes, headers, PAYLOAD)
        stored, refused = 0, 0
        answers = publisher.messages()
        for _ in range(ROUNDS):
            publisher.send(frame * BATCH)
            for _ in range(BATCH):
                answer = json.loads(next(answers)[2])
                if "error" in answer:
                    assert answer["error"]["code"] == 503
                    refused += 1
                else:
                    stored += 1
                    assert answer["seq"] == stored
            if refused >= BATCH:
                break
        assert stored
        assert refused
        assert bystander.request("$JS.API.STREAM.INFO.S")["state"]["messages"] == stored
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        publisher.send(frame)
        assert json.loads(next(answers)[2])["seq"] == stored + 1
    print(f"{stored} stored, {refused} refused")
