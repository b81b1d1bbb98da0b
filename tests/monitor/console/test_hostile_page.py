"""Names, subjects, headers and payloads that try to become code, or to hide: the page shows them as texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.server import Server
from tests.chromium import Tab
from tests.clients import flush
from tests.monitor.conftest import Connecter
from tests.monitor.console.conftest import StreamServer
from tests.monitor.console.test_page import READY, address

SCRIPT = "<script>window.pwned=1</script>"
IMAGE = "<img src=x onerror=window.pwned=1>"
IN_A_SUBJECT = "<img/src=x/onerror=pwned=1//"  # no dots and wildcards there
LINK = "javascript:window.pwned=1"
TURNED = "safe\u202egnp.exe"
HIDDEN = "a\u200bb\u0000c"
STREAM = "<b>onmouseover".replace(">", "") + "='x'&quot;"
HARMLESS = """
  window.pwned === undefined
  && document.querySelectorAll("main :is(img, script, iframe, object, style, i:not(.key), u)").length === 0
  && [...document.querySelectorAll("*")].every((node) =>
    node.getAttributeNames().every((one) => !one.startsWith("on"))
    && !/^javascript:/i.test(node.getAttribute("href") ?? ""))
"""
VIEWS = ("overview", "connections", "streams", "consumers", "buckets", "tables")


@pytest.fixture
async def hostile(streams: StreamServer, connect: Connecter) -> Server:
    server = await streams(server_name="<i>" + "x" * 300)
    names = (SCRIPT, IMAGE, LINK, TURNED, HIDDEN, "n" * 3000, "${7*7}{{7*7}}")
    for name in names:
        client = await connect(server.broker.port, name=name)
        await client.subscribe(f"{IN_A_SUBJECT}.*", queue=IN_A_SUBJECT)
        await flush(client)
    js = client.jetstream()
    await js.add_stream(name=STREAM, subjects=["h.>"], description=SCRIPT)
    payloads = (
        *(
            SCRIPT.encode(),
            IMAGE.encode(),
            LINK.encode(),
            TURNED.encode(),
            HIDDEN.encode(),
            b"\x00\xff\x1b[2J",
        ),
        *(
            json.dumps({SCRIPT: IMAGE, "__proto__": {"pwned": 1}, "n": 12345678901234567890}).encode(),
            b"x" * 900_000,
        ),
        *(b"[" * 5000 + b"]" * 5000, b"\xed\xa0\x80", b'{"a":"\xe2\x80\xae"}', b""),
    )
    for payload in payloads:
        headers = {"X-Html": IMAGE, "X-Turned": TURNED, "X-Long": "v" * 3000, "X-Script": SCRIPT}
        await js.publish(f"h.{IN_A_SUBJECT}.{LINK}", payload, headers=headers)
    await js.pull_subscribe("h.>", durable="<u>&<i".replace(">", ""), stream=STREAM)
    await js.add_stream(name="KV_hostile", subjects=["$KV.hostile.>"], max_msgs_per_subject=3)
    await js.publish(f"$KV.hostile.{IN_A_SUBJECT}", SCRIPT.encode())
    report: dict[str, Any] = {"id": SCRIPT, "stream": STREAM, "table": IMAGE, "format": LINK, "seq": 1}
    report |= {"state": "running", "time": SCRIPT, "rows_per_second": 1e300, "rows": 2**53}
    await client.publish(f"$HEADRACE.LANDING.{STREAM}", json.dumps(report).encode())
    report["rows_per_second"] = 1.0
    await client.publish(f"$HEADRACE.LANDING.{STREAM}", json.dumps(report).encode())
    await flush(client)
    return server


async def test_every_view_shows_hostile_names_as_text(hostile: Server, tab: Tab) -> None:
    seen = ""
    for view in VIEWS:
        await tab.open(address(hostile, f"#/{view}"))
        await tab.until(READY)
        await tab.until(HARMLESS)
        seen += await tab.text()
    for text in (SCRIPT, IMAGE, LINK, STREAM):
        assert text in seen, text
    assert "\u202e" not in seen
    assert "safe\\u202egnp.exe" in seen
    assert "a\\u200bb\u2400c" in seen
    assert not any(url.endswith("/x") for url in tab.requested)
    await tab.open(address(hostile, "#/connections"))
    await tab.click("table tbody tr td:nth-child(2)")
    await tab.see("delivered", IN_A_SUBJECT)
    assert await tab.evaluate(HARMLESS)


async def test_every_message_is_shown_as_text(hostile: Server, tab: Tab) -> None:
    from urllib.parse import quote

    await tab.open(address(hostile, f"#/stream/$G/{quote(STREAM)}"))
    await tab.see("12 messages shown")
    assert await tab.evaluate(HARMLESS)
    for number in range(1, 13):
        await tab.click(f"tbody tr:nth-child({number})")
        await tab.see(f"Message {13 - number}\n")
        await tab.until("!document.querySelector('.detail .skeleton')")
        for mode in ("Hex", "Text", "JSON"):
            button = f".segmented button[data-mode={mode.lower()}]:enabled"
            if await tab.evaluate(f"!!document.querySelector('{button}')"):
                await tab.click(button)
                assert await tab.evaluate(HARMLESS)
                assert "\u202e" not in await tab.text()
    await tab.click("tbody tr:nth-child(6)")
    await tab.see("Message 7\n", "12345678901234567890")
    await tab.click("text=Configuration")
    await tab.see(SCRIPT)
    assert await tab.evaluate(HARMLESS)


async def test_keys_are_shown_as_text(hostile: Server, tab: Tab) -> None:
    await tab.open(address(hostile, "#/bucket/$G/hostile"))
    await tab.click("tbody tr")
    await tab.see("Revision 1", SCRIPT)
    assert await tab.evaluate(HARMLESS)


LEADING_NOWHERE = (
    "#/stream/<img src=x onerror=window.pwned=1>/x",
    "#/<img src=x onerror=window.pwned=1>",
    "#/stream/$G/%3Cscript%3Ewindow.pwned=1%3C%2Fscript%3E",
    "#/bucket/$G/%E0%A4%A",
    "#/__proto__",
    "#/constructor/x",
    "#/stream",
    "#/bucket/$G/none",
)


async def test_addresses_that_lead_nowhere(hostile: Server, tab: Tab) -> None:
    for hash_ in LEADING_NOWHERE:
        await tab.open("about:blank")  # so that the page starts with this address
        await tab.open(address(hostile, hash_))
        await tab.until("(document.querySelector('main')?.innerText ?? '').length > 10")
        await tab.until(HARMLESS)
        assert tab.errors == [], hash_
