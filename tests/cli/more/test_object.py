"""`headrace object` against headrace and nats-server."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from nats import connect
from nats.js import api

from tests.cli.commands import COMMAND, SECONDS, assert_one_error_line, environment
from tests.cli.more.conftest import Broker
from tests.cli.more.in_process import run_here
from tests.cli.screens import terminal

CONTENTS = {"empty": b"", "one": b"x", "chunk": bytes(131072), "more": os.urandom(5_000_000)}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files are written to the current directory: it is one of many in `tmp_path`."""
    inside = tmp_path / "a" / "b" / "c"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    return inside


def test_files_come_back_as_they_were(broker: Broker, directory: Path) -> None:
    assert broker.json("object", "add", "files")["stream"] == "OBJ_files"
    for name, content in CONTENTS.items():
        Path(name).write_bytes(content)
        stored = broker.json("object", "put", "files", name)
        assert (stored["size"], stored["chunks"]) == (len(content), -(-len(content) // 131072))
        Path(name).unlink()
        assert "Wrote" in broker.ok("object", "get", "files", name)
        assert Path(name).read_bytes() == content
        assert broker.run("object", "get", "files", name, "-O", "-").output == content
        assert hashlib.sha256(content).hexdigest() in broker.ok("object", "info", "files", name)
    assert broker.ok("object", "ls", "files", "--names").split() == sorted(CONTENTS)
    assert [meta["name"] for meta in broker.json("object", "ls", "files")] == sorted(CONTENTS)
    assert sorted(path.name for path in directory.iterdir()) == sorted(CONTENTS)  # and nothing else


def test_replacing_and_removing(broker: Broker) -> None:
    broker.ok("object", "add", "replaced", "--description", "of the test", "--storage", "memory")
    broker.ok("object", "put", "replaced", "--name", "dir/x", "-H", "A: b", stdin=bytes(1_000_000))
    asked = broker.run("object", "put", "replaced", "--name", "dir/x", stdin=b"new")
    assert_one_error_line(asked, "Replace object replaced > dir/x?", "--force")
    assert broker.json("object", "info", "replaced", "dir/x")["headers"] == {"A": ["b"]}
    broker.ok("object", "put", "replaced", "--name", "dir/x", "-f", stdin=b"new")
    assert broker.run("object", "get", "replaced", "dir/x", "-O", "-").output == b"new"
    assert broker.json("object", "info", "replaced")["bytes"] < 10_000  # the old chunks are gone

    broker.ok("object", "get", "replaced", "dir/x")
    assert Path("x").read_bytes() == b"new"
    assert_one_error_line(broker.run("object", "get", "replaced", "dir/x"), "Replace file x?")
    Path("x").write_bytes(b"old")
    broker.ok("object", "get", "replaced", "dir/x", "--force")
    assert Path("x").read_bytes() == b"new"

    assert broker.ok("object", "rm", "replaced", "dir/x", "-f") == "replaced > dir/x deleted\n"
    assert_one_error_line(broker.run("object", "get", "replaced", "dir/x", "-f"), "has no object dir/x")
    assert broker.ok("object", "ls", "replaced") == "No objects found in bucket\n"
    assert "replaced" in broker.ok("object", "ls")
    assert "yes" in broker.ok("object", "seal", "replaced", "-f")
    assert_one_error_line(broker.run("object", "put", "replaced", "--name", "y", stdin=b"1"), "sealed")
    assert broker.ok("object", "del", "replaced", "-f") == "Bucket replaced deleted\n"
    assert_one_error_line(broker.run("object", "ls", "replaced"), "there is no bucket replaced")


def test_what_nats_py_stored_is_read_and_the_other_way_round(broker: Broker) -> None:
    content = os.urandom(300_000)
    broker.ok("object", "add", "both")
    broker.ok("object", "put", "both", "--name", "ours", "--chunk-size", "10KB", stdin=content)

    async def check() -> None:
        client = await connect(broker.url)
        store = await client.jetstream(timeout=30).object_store("both")
        await store.put("theirs", content)
        written = io.BytesIO()
        await store.get("ours", writeinto=written)
        assert written.getvalue() == content
        await client.close()

    asyncio.run(check())
    assert broker.run("object", "get", "both", "theirs", "-O", "-").output == content
    assert broker.json("object", "info", "both", "ours")["chunks"] == 30


@pytest.mark.parametrize(
    "name", ["../../evil", "/tmp/../../evil", "a/../../../evil", "..\\..\\evil", "x/evil"]
)
def test_a_hostile_name_stays_in_the_directory(
    broker: Broker, directory: Path, tmp_path: Path, name: str
) -> None:
    broker.run("object", "add", "hostile")

    async def store() -> None:
        client = await connect(broker.url)
        await (await client.jetstream(timeout=30).object_store("hostile")).put(name, b"content")
        await client.close()

    asyncio.run(store())
    broker.ok("object", "get", "hostile", name)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files == [directory / "evil"]


@pytest.mark.parametrize("name", ["..", ".", "/", "a/..", "-", "../.."])
def test_a_name_that_is_none_for_a_file(name: str, directory: Path) -> None:
    assert_one_error_line(run_here("object", "get", "b", "--", name), "has no name for a file", "--output")


def test_a_link_in_the_way_is_replaced_not_followed(broker: Broker, directory: Path, tmp_path: Path) -> None:
    broker.run("object", "add", "linked")
    broker.ok("object", "put", "linked", "--name", "x", "-f", stdin=b"new")
    (tmp_path / "precious").write_bytes(b"precious")
    Path("x").symlink_to(tmp_path / "precious")
    broker.ok("object", "get", "linked", "x", "-f")
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert Path("x").read_bytes() == b"new"


def test_an_object_that_is_a_link(broker: Broker) -> None:
    for bucket in ("origin", "links"):
        broker.ok("object", "add", bucket)
    broker.ok("object", "put", "origin", "--name", "real", stdin=b"content")

    async def link() -> None:
        client = await connect(broker.url)
        jetstream = client.jetstream(timeout=30)
        for name, target in (("alias", {"bucket": "origin", "name": "real"}), ("all", {"bucket": "origin"})):
            meta = {
                "name": name,
                "bucket": "links",
                "nuid": "n",
                "size": 0,
                "chunks": 0,
                "options": {"link": target},
            }
            subject = f"$O.links.M.{base64.urlsafe_b64encode(name.encode()).decode()}"
            await jetstream.publish(subject, json.dumps(meta).encode())
        await client.close()

    asyncio.run(link())
    assert broker.run("object", "get", "links", "alias", "-O", "-").output == b"content"
    assert_one_error_line(broker.run("object", "get", "links", "all"), "is a link to bucket origin")


@pytest.mark.parametrize("damage", ["a chunk is gone", "a chunk is wrong", "the digest is wrong"])
def test_damage_is_noticed_and_leaves_no_file(broker: Broker, directory: Path, damage: str) -> None:
    broker.run("object", "add", "damaged")
    broker.ok("object", "put", "damaged", "--name", "x", "-f", "--chunk-size", "1000", stdin=bytes(10_000))
    meta = broker.json("object", "info", "damaged", "x")

    async def spoil() -> None:
        client = await connect(broker.url)
        jetstream = client.jetstream(timeout=30)
        subject = f"$O.damaged.C.{meta['nuid']}"
        if damage == "the digest is wrong":
            store = await jetstream.object_store("damaged")
            info = await store.get_info("x")
            info.digest = "SHA-256=" + "A" * 43 + "="
            await jetstream.publish("$O.damaged.M.eA==", json.dumps(info.as_dict()).encode())
        else:
            last = await jetstream.get_last_msg("OBJ_damaged", subject)
            await jetstream.delete_msg("OBJ_damaged", last.seq)
            if damage == "a chunk is wrong":
                await jetstream.publish(subject, b"y" * 1000)
        await client.close()

    asyncio.run(spoil())
    assert_one_error_line(broker.run("object", "get", "damaged", "x"), "is damaged")
    assert list(directory.iterdir()) == []


def test_an_interrupted_put_leaves_nothing(broker: Broker) -> None:
    broker.ok("object", "add", "interrupted")
    before = broker.json("object", "info", "interrupted")["bytes"]
    process = subprocess.Popen(
        [*COMMAND, "object", "put", "interrupted", "--name", "x", "-f", "-s", broker.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdin
    process.stdin.write(bytes(1_000_000))
    process.stdin.flush()
    while broker.json("object", "info", "interrupted")["bytes"] < 500_000:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 130  # although nobody has closed its stdin
    assert process.communicate() == (b"", b"")
    assert broker.json("object", "info", "interrupted")["bytes"] == before
    assert broker.ok("object", "ls", "interrupted") == "No objects found in bucket\n"


def test_progress_is_shown_on_a_terminal(broker: Broker) -> None:
    broker.ok("object", "add", "progress")
    Path("big").write_bytes(bytes(3_000_000))
    with terminal("object", "put", "progress", "big", "-s", broker.url) as shown:
        shown.wait_for("Object progress > big", "3,000,000 bytes")
        assert shown.end() == 0
        assert any(" of 2.9 MiB " in line for line in shown.screen.erased)
    with terminal("object", "put", "progress", "big", "-s", broker.url) as shown:
        shown.wait_for("Replace object progress > big? [y/N]")
        shown.press("n\n")
        assert shown.end() == 130


def test_a_quota_that_is_reached(broker: Broker) -> None:
    broker.ok("object", "add", "quota", "--max-bucket-size", "1MB")
    result = broker.run("object", "put", "quota", "--name", "x", stdin=bytes(3_000_000))
    assert_one_error_line(result, "maximum bytes exceeded")
    assert broker.json("object", "info", "quota")["bytes"] < 1000


def test_what_cannot_be_read_or_written(broker: Broker, directory: Path) -> None:
    broker.run("object", "add", "errors")
    assert_one_error_line(broker.run("object", "put", "errors", "nosuch"), "cannot read nosuch")
    assert_one_error_line(broker.run("object", "put", "errors"), "--name is required", code=2)
    broker.ok("object", "put", "errors", "--name", "x", "-f", stdin=b"x")
    assert_one_error_line(broker.run("object", "get", "errors", "x", "-O", "no/dir"), "cannot write no/dir")
    Path("folder").mkdir()
    assert_one_error_line(broker.run("object", "get", "errors", "x", "-O", "folder"), "cannot write folder")
    broker.ok("object", "get", "errors", "x", "-O", os.devnull)
    assert_one_error_line(broker.run("object", "get", "a.b", "x"), "bucket", code=2)
    assert_one_error_line(broker.run("object", "rm", "errors", "x"), "--force")


def test_a_description_that_is_none(broker: Broker) -> None:
    broker.ok("object", "add", "odd")

    async def publish(payload: bytes) -> None:
        client = await connect(broker.url)
        await client.jetstream(timeout=30).publish(
            "$O.odd.M.eA==", payload, headers={api.Header.ROLLUP: "sub"}
        )
        await client.close()

    for payload in (b"", b"[]", b"[" * 100_000, b'{"size": "x"}', b'{"name": 7}', b"null"):
        asyncio.run(publish(payload))
        assert_one_error_line(broker.run("object", "info", "odd", "x"), "invalid description")
        assert_one_error_line(broker.run("object", "ls", "odd"), "invalid description")
