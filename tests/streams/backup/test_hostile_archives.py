"""Archives that nobody should have made: nothing is restored, left behind, or written elsewhere."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError

from headrace.engine.streams.archive import MAGIC
from headrace.engine.streams.s2 import STREAM_HEAD, compress
from headrace.streams.backup import restore as restore_module
from tests.streams.backup.archives import (
    SECONDS,
    Backup,
    Failed,
    backup,
    begin_restore,
    delete,
    entry,
    messages,
    number,
    pack,
    publish_many,
    restore,
)
from tests.streams.embedded import embedded_server
from tests.streams.peers import ask

CONFIG = {"name": "S", "subjects": ["s.>"]}
END = entry(b"")
DURABLE = {"durable_name": "C", "name": "C", "ack_policy": "explicit"}
POSITION = {"consumer_seq": 0, "stream_seq": 0}
PROGRESS = {"delivered": POSITION, "ack_floor": POSITION}
MEGABYTE = 1024 * 1024


def state(**fields: Any) -> bytes:
    return entry(b"state.json", json.dumps({"messages": 1, "first_seq": 1, "last_seq": 1, **fields}).encode())


def message(seq: int = 1, subject: bytes = b"s.x", body: bytes = b"hello", **more: Any) -> bytes:
    return entry(subject, body, seq=seq, time=1, **more)


def one(name: bytes = b"C", config: Any = DURABLE, progress: Any = PROGRESS) -> bytes:
    return entry(b"consumers/" + name, json.dumps({"config": config, "state": progress}).encode())


def tar(name: str, kind: bytes = tarfile.REGTYPE) -> bytes:
    """The format of nats-server before 2.15."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.type = kind
        info.linkname = "/etc/passwd"
        archive.addfile(info)
    return STREAM_HEAD + compress(file.getvalue())


WHOLE = pack(state(), message(), END)
HUGE = 1 << 62
HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "no archive": STREAM_HEAD,
    "another format": STREAM_HEAD + compress(b"what is this?"),
    "half of the magic": STREAM_HEAD + compress(MAGIC[:5]),
    "only the magic": pack(),
    "no state": pack(message(), END),
    "state is no json": pack(entry(b"state.json", b"{"), END),
    "state is a list": pack(entry(b"state.json", b"[]"), END),
    "state is deep": pack(entry(b"state.json", b"[" * 100_000), END),
    "negative sequence": pack(state(first_seq=-1), END),
    "largest sequence": pack(state(last_seq=2**64 - 1), END),
    "first after last": pack(state(first_seq=5, last_seq=1), END),
    "more bytes than there are": pack(state(bytes=HUGE), END),
    "more consumers than there are": pack(state(consumer_count=2), one(), END),
    "more consumers than any": pack(state(consumer_count=HUGE), END),
    "no end": pack(state(), message()),
    "cut": WHOLE[:-3],
    "cut in a message": pack(state(), message()[:-2]),
    "bytes behind the end": pack(state(), message(), END, b"x"),
    "message behind the end": pack(state(), message(), END, message(2)),
    "chunk behind the end": WHOLE + compress(message(2)),
    "out of order": pack(state(last_seq=2), message(2), message(1), END),
    "twice": pack(state(), message(), message(), END),
    "sequence below the first": pack(state(first_seq=5, last_seq=6), message(4), END),
    "sequence above all": pack(state(), message(2**64 - 1), END),
    "no sequence": pack(state(), message(0), END),
    "no subject": pack(state(), message(subject=b""), END),
    "subject with a line": pack(state(), message(subject=b"s.x 1\r\nMSG"), END),
    "subject with a line end": pack(state(), message(subject=b"s.x\nPING"), END),
    "subject with a carriage return": pack(state(), message(subject=b"s.x\rPING"), END),
    "subject with a blank": pack(state(), message(subject=b"s. x"), END),
    "subject with a zero": pack(state(), message(subject=b"s.\0"), END),
    "endless subject": pack(state(), number(1 << 40)),
    "endless number": pack(b"\xff" * 20),
    "huge payload": pack(state(), number(1) + b"\x02\x01\x00" + number(HUGE) + b"s"),
    "huge headers": pack(state(), number(1) + b"\x02\x01" + number(2**64 - 1) + b"\x01s"),
    "above max_payload": pack(state(), message(body=bytes(2 * MEGABYTE)), END),
    "wrong checksum": WHOLE[:-1] + bytes([WHOLE[-1] ^ 1]),
    "consumer is no json": pack(state(consumer_count=1), entry(b"consumers/C", b"{"), END),
    "consumer without state": pack(
        state(consumer_count=1), entry(b"consumers/C", json.dumps({"config": DURABLE}).encode()), END
    ),
    "consumer goes elsewhere": pack(
        state(consumer_count=1), one(b"../../../../up", {"ack_policy": "explicit"}), END
    ),
    "consumer is absolute": pack(state(consumer_count=1), one(b"/tmp/up", {"ack_policy": "explicit"}), END),
    "consumer without name": pack(state(consumer_count=1), one(b"", {"ack_policy": "explicit"}), END),
    "consumer of two names": pack(state(consumer_count=1), one(b"D"), END),
    "consumer twice": pack(state(consumer_count=2), one(), one(), END),
    "consumer that breaks rules": pack(
        state(consumer_count=1), one(config={**DURABLE, "max_waiting": 5, "deliver_subject": "x"}), END
    ),
    "consumer of an unknown policy": pack(
        state(consumer_count=1), one(config={**DURABLE, "ack_policy": "never"}), END
    ),
    "floor above delivered": pack(
        state(consumer_count=1), one(progress={**PROGRESS, "ack_floor": {"stream_seq": 7}}), END
    ),
    "negative position": pack(
        state(consumer_count=1), one(progress={**PROGRESS, "ack_floor": {"stream_seq": -1}}), END
    ),
    "consumer has counted further than anybody can": pack(
        state(consumer_count=1), one(progress={**PROGRESS, "delivered": {"consumer_seq": 2**62 + 1}}), END
    ),
    "consumer has redelivered more than anybody can": pack(
        state(consumer_count=1), one(progress={**PROGRESS, "redelivered": {"1": 10**30}}), END
    ),
    "tar": tar("meta.inf"),
    "tar that goes up": tar("../../../../up"),
    "tar with an absolute path": tar("/tmp/up"),
    "tar with a link": tar("msgs", tarfile.SYMTYPE),
    "tar with a hard link": tar("msgs", tarfile.LNKTYPE),
    "tar with a device": tar("msgs", tarfile.CHRTYPE),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture
async def client(directory: Path) -> AsyncIterator[Client]:
    async with embedded_server(directory) as server:
        connected = await server.client()
        yield connected
        await connected.close()
        assert "Traceback" not in server.log()


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.suffix != ".logger"}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
async def test_nothing_is_restored_and_nothing_is_left(directory: Path, client: Client, data: bytes) -> None:
    before = files(directory)
    with pytest.raises(Failed):
        await restore(client, Backup(CONFIG, {}, data))
    assert files(directory) == before
    assert (await ask(client, "STREAM.INFO.S"))["error"]["err_code"] == 10059
    # Afterwards there is nothing in the way of a good one.
    answer = await restore(client, Backup(CONFIG, {}, WHOLE))
    assert answer["state"]["messages"] == 1
    await delete(client, "S")


async def test_every_cut_of_an_archive_is_refused(directory: Path, client: Client) -> None:
    await ask(client, "STREAM.CREATE.S", CONFIG)
    await publish_many(client, "s", 20)
    await ask(client, "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": DURABLE})
    made = await backup(client, "S")
    await delete(client, "S")
    before = files(directory)
    for end in range(0, len(made.data), 61):
        with pytest.raises(Failed):
            await restore(client, Backup(made.config, {}, made.data[:end]))
    assert files(directory) == before


async def test_no_changed_byte_changes_what_is_restored(directory: Path, client: Client) -> None:
    """It is refused, or it makes no difference."""
    await ask(client, "STREAM.CREATE.S", CONFIG)
    await publish_many(client, "s", 20)
    made = await backup(client, "S")
    wanted = await messages(client, "S")
    await delete(client, "S")
    before = files(directory)
    for place in range(0, len(made.data), 37):
        data = made.data[:place] + bytes([made.data[place] ^ 0x41]) + made.data[place + 1 :]
        try:
            await restore(client, Backup(made.config, {}, data))
        except Failed:
            pass
        else:
            assert await messages(client, "S") == wanted
            await delete(client, "S")
    assert files(directory) == before


async def test_a_sender_that_falls_silent_leaves_nothing(
    directory: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(directory)
    subject = await begin_restore(client, "S", CONFIG)
    await client.request(subject, STREAM_HEAD + compress(MAGIC + state() + message()), timeout=SECONDS)
    assert any("/.deleted-S-" in path for path in files(directory) - before)
    monkeypatch.setattr(restore_module, "STALL_SECONDS", 0.5)  # from the next chunk on
    await client.request(subject, compress(message(2)), timeout=SECONDS)
    while files(directory) != before:
        await asyncio.sleep(0.05)
    with pytest.raises(NoRespondersError):
        await client.request(subject, b"", timeout=SECONDS)


async def test_a_chunk_without_reply_ends_it(directory: Path, client: Client) -> None:
    before = files(directory)
    subject = await begin_restore(client, "S", CONFIG)
    completed = await client.subscribe("$JS.EVENT.ADVISORY.STREAM.RESTORE_COMPLETE.S")
    await client.publish(subject, WHOLE)
    await completed.next_msg(timeout=SECONDS)
    assert files(directory) == before
    with pytest.raises(NoRespondersError):
        await client.request(subject, b"", timeout=SECONDS)


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"name": "T"}, "stream name in subject does not match request"),
        ({**CONFIG, "name": "S"}, ""),
        ({**CONFIG, "subjects": ["a b"]}, "invalid subject"),
        ({**CONFIG, "subjects": ["taken.x"]}, "subjects overlap"),
        ({**CONFIG, "max_bytes": 1 << 60}, "insufficient storage resources"),
        ({**CONFIG, "num_replicas": 3}, "replicas > 1 not supported"),
    ],
)
async def test_a_configuration_is_checked_before_anything_is_sent(
    client: Client, config: dict[str, Any], complaint: str
) -> None:
    await ask(client, "STREAM.CREATE.TAKEN", {"name": "TAKEN", "subjects": ["taken.>"]})
    if complaint:
        with pytest.raises(Failed, match=complaint):
            await begin_restore(client, "S", config)
    else:
        assert (await begin_restore(client, "S", config)).startswith("$JS.SNAPSHOT.RESTORE.S.")
    await delete(client, "TAKEN")


async def test_a_stream_that_is_created_meanwhile_wins(directory: Path, client: Client) -> None:
    subject = await begin_restore(client, "S", CONFIG)
    await client.request(subject, WHOLE, timeout=SECONDS)
    await ask(client, "STREAM.CREATE.S", CONFIG)
    before = files(directory)
    answer = json.loads((await client.request(subject, b"", timeout=SECONDS)).data)
    assert answer["error"]["err_code"] == 10130
    await delete(client, "S")
    assert not any(".deleted" in path for path in before & files(directory))


async def test_a_flood_of_chunks_is_refused(client: Client) -> None:
    """Memory is bounded, whatever a sender does."""
    subject = await begin_restore(client, "S", CONFIG)
    filler = compress(message(body=bytes(1000)))
    chunk = STREAM_HEAD + compress(MAGIC + state()) + filler
    await client.request(subject, chunk, timeout=SECONDS)
    inbox = client.new_inbox()
    answers = await client.subscribe(inbox, pending_msgs_limit=-1, pending_bytes_limit=-1)
    for _ in range(100):
        await client.publish(
            subject, b"\xfe" + (MEGABYTE - 8).to_bytes(3, "little") + bytes(MEGABYTE - 8), inbox
        )
    await client.flush(timeout=60)
    await client.publish(subject, b"", inbox)
    while True:
        answer = await answers.next_msg(timeout=SECONDS)
        if answer.data:
            break
    assert "error" in json.loads(answer.data)
