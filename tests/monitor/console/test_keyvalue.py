"""Keys and their values: what is shown is what is stored, and what was not changed stays as it is."""

from __future__ import annotations

import base64

import nats
import pytest
from nats.js.api import KeyValueConfig

from tests.chromium import Tab
from tests.monitor.conftest import Connecter
from tests.monitor.console.conftest import StreamServer, Visit
from tests.monitor.console.test_page import address


async def test_keys_are_edited_only_as_they_were_seen(
    streams: StreamServer, visit: Visit, connect: Connecter
) -> None:
    server = await streams()
    client = await connect(server.broker.port)
    bucket = await client.jetstream().create_key_value(KeyValueConfig(bucket="config", history=5))
    for value in (b"1", b"2"):
        await bucket.put("a.b", value)
    visitor = await visit(server)
    of = {"account": "$G", "bucket": "config"}
    (row,) = (await visitor.view("buckets"))["buckets"]
    assert (row["bucket"], row["keys"], row["history"]) == ("config", 1, 5)
    (key,) = (await visitor.view("keys", **of))["keys"]
    assert (key["key"], key["operation"], base64.b64decode(key["data"])) == ("a.b", "PUT", b"2")
    shown = await visitor.view("key", **of, key="a.b")
    assert [base64.b64decode(one["data"]) for one in shown["history"]] == [b"2", b"1"]
    revision = shown["history"][0]["seq"]
    await visitor.act("key.put", **of, key="a.b", value="3", revision=revision)
    status, message = await visitor.refused("key.put", **of, key="a.b", value="4", revision=revision)
    assert status == 409
    assert "Somebody has changed this key in the meantime" in message
    assert (await bucket.get("a.b")).value == b"3"
    await visitor.act("key.put", **of, key="new", value="1", revision="0")
    assert await visitor.refused("key.put", **of, key="new", value="1", revision="0") == (
        409,
        'There is a key "new" already. Open it to edit it.',
    )
    for name in ("nasty*", "a b", "a..b", ".a", "a.", ">", "\u00fcmlaut", ""):
        assert await visitor.refused("key.put", **of, key=name, value="1", revision="0") == (
            400,
            "A key may contain only letters, digits and - / _ = and . between two others.",
        ), name
    await visitor.act("key.delete", **of, key="a.b")
    with pytest.raises(nats.js.errors.KeyNotFoundError):
        await bucket.get("a.b")
    keys = (await visitor.view("keys", **of, filter="a.*"))["keys"]
    assert [(one["key"], one["operation"]) for one in keys] == [("a.b", "DEL")]
    await visitor.act("key.purge", **of, key="a.b")
    assert len((await visitor.view("key", **of, key="a.b"))["history"]) == 1
    await visitor.act("key.put", **of, key="a.b", value="again", revision="0")
    assert (await bucket.get("a.b")).value == b"again"
    assert (await visitor.refused("key.put", account="$G", bucket="none", key="a", value=""))[0] == 404


@pytest.mark.parametrize(
    ("reason", "operation"), [("MaxAge", "PURGE"), ("Purge", "PURGE"), ("Remove", "DEL"), ("Other", "PUT")]
)
async def test_a_marker_of_the_server_is_no_value(
    streams: StreamServer, visit: Visit, connect: Connecter, reason: str, operation: str
) -> None:
    """A key that has expired, for example, is gone; it is shown as the command line shows it."""
    server = await streams()
    client = await connect(server.broker.port)
    await client.jetstream().create_key_value(KeyValueConfig(bucket="config", history=5))
    await client.jetstream().publish("$KV.config.a", b"", headers={"Nats-Marker-Reason": reason})
    visitor = await visit(server)
    of = {"account": "$G", "bucket": "config"}
    assert [one["operation"] for one in (await visitor.view("keys", **of))["keys"]] == [operation]
    assert [one["operation"] for one in (await visitor.view("key", **of, key="a"))["history"]] == [operation]


@pytest.mark.parametrize("value", ["one\r\ntwo\r\n", "one\rtwo", "\ufeffone\ntwo\n", " \ttext\n\n"])
async def test_a_value_that_was_not_changed_is_saved_as_it_was(
    streams: StreamServer, tab: Tab, connect: Connecter, value: str
) -> None:
    server = await streams()
    client = await connect(server.broker.port)
    bucket = await client.jetstream().create_key_value(KeyValueConfig(bucket="config"))
    await bucket.put("lines", value.encode())
    await tab.open(address(server, "#/bucket/$G/config"))
    await tab.click("text=lines")
    await tab.click("text=Edit")
    await tab.click("dialog button[type=submit]")
    await tab.see("lines is saved.")
    assert (await bucket.get("lines")).value == value.encode()


async def test_a_value_that_an_editor_would_change_is_not_edited(
    streams: StreamServer, tab: Tab, connect: Connecter
) -> None:
    server = await streams()
    client = await connect(server.broker.port)
    bucket = await client.jetstream().create_key_value(KeyValueConfig(bucket="config"))
    await bucket.put("lines", b"one\r\ntwo\n")
    await tab.open(address(server, "#/bucket/$G/config"))
    await tab.click("text=lines")
    await tab.click("text=Edit")
    await tab.see("its lines end in different ways")
    assert not await tab.evaluate("!!document.querySelector('dialog')")
