"""Every view in a real browser: click, type, and see what a user sees. Pictures are left in build/console."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.js.api import KeyValueConfig

from headrace.config import load_file
from headrace.config.console import ConsoleOptions
from headrace.config.identity import AccountLimits, AccountOptions, User
from headrace.keys.nkeys import KeyPair
from headrace.server import Server
from tests.chromium import Tab
from tests.clients import flush
from tests.monitor.conftest import Connecter, Starter
from tests.monitor.console.conftest import PICTURES, StreamServer

LANDING = {
    "id": "land-orders",
    "stream": "ORDERS",
    "table": "tables/orders",
    "format": "delta",
    "state": "running",
    "seq": 37,
    "batch": 5,
    "rows": 37,
    "rows_per_second": 12.5,
    "deletions": 3,
    "dead_letters": 2,
    "every": 60,
    "time": "2026-11-16T12:00:00Z",
}


READY = "!!document.querySelector('h1') && !document.querySelector('.skeleton')"
PHONE_WIDTH = 390
FOCUSED = "document.activeElement.innerText || document.activeElement.ariaLabel"


def address(server: Server, hash_: str = "") -> str:
    assert server.monitor is not None
    return f"http://127.0.0.1:{server.monitor.port}/console{hash_}"


async def fill(client: Client) -> None:
    """A shop: orders, jobs, a bucket, a landing query."""
    js = client.jetstream()
    await js.add_stream(name="ORDERS", subjects=["orders.>"])
    for number in range(40):
        country = ("DE", "FR")[number % 2]
        order = {"number": number, "amount": number * 2.5, "country": country}
        await js.publish(
            f"orders.{country.lower()}", json.dumps(order).encode(), headers={"Nats-Msg-Id": f"o{number}"}
        )
    await js.add_stream(name="JOBS", subjects=["jobs"], retention="workqueue")
    await js.publish("jobs", b"send the mail")
    worker = await js.pull_subscribe("orders.>", durable="billing", stream="ORDERS")
    for message in (await worker.fetch(10))[:7]:
        await message.ack_sync()
    bucket = await js.create_key_value(KeyValueConfig(bucket="config", history=5))
    for value in (b"10", b"20"):
        await bucket.put("limits.orders", value)
    await client.publish("$HEADRACE.LANDING.ORDERS", json.dumps(LANDING).encode())
    await flush(client)


@pytest.fixture
async def shop(streams: StreamServer, connect: Connecter) -> Server:
    server = await streams(server_name="mill-1")
    client = await connect(server.broker.port, name="shop-frontend")
    await fill(client)
    await client.subscribe("greet.*", cb=greet)
    await flush(client)
    return server


async def greet(request: Any) -> None:
    await request.respond(json.dumps({"hello": request.subject.partition(".")[2]}).encode())


async def test_the_overview_is_live(shop: Server, tab: Tab, connect: Connecter) -> None:
    await tab.open(address(shop))
    await tab.see("Overview", "mill-1", "Live", "Slow consumers", "Stored messages", "Time to sync to disk")
    await tab.until("document.querySelector('.tile .value').textContent === '1'")
    await connect(shop.broker.port, name="another")
    await tab.until("document.querySelector('.tile .value').textContent === '2'")
    await tab.until("document.querySelectorAll('.chart .line').length >= 3")
    own = address(shop).removesuffix("/console")
    assert all(url.startswith(own) for url in tab.requested if not url.startswith("about:"))
    for scheme in ("light", "dark"):
        await tab.use_scheme(scheme)
        await tab.photograph(PICTURES / f"overview-{scheme}.png")
    colors = "getComputedStyle(document.body).backgroundColor"
    dark = await tab.evaluate(colors)
    await tab.use_scheme("light")
    assert await tab.evaluate(colors) != dark


@pytest.mark.parametrize(
    "view",
    [
        "overview",
        "connections",
        "streams",
        "stream/$G/ORDERS",
        "consumers",
        "buckets",
        "bucket/$G/config",
        "tables",
        "publish",
    ],
)
async def test_a_phone_scrolls_in_one_direction(shop: Server, tab: Tab, view: str) -> None:
    """A page that is too wide makes the window wider on a phone, so it is compared with the screen."""
    await tab.resize(PHONE_WIDTH, 844, mobile=True)
    await tab.open(address(shop, f"#/{view}"))
    await tab.until(READY)
    widths = await tab.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert widths == [PHONE_WIDTH, PHONE_WIDTH]
    await tab.photograph(PICTURES / f"phone-{view.partition('/')[0]}.png")


async def test_a_phone_shows_how_far_a_table_is_behind(shop: Server, tab: Tab, connect: Connecter) -> None:
    client = await connect(shop.broker.port)
    long = LANDING | {"id": "land-all-of-them-" + "x" * 40, "table": f"/{'deep/' * 20}tables/all", "seq": 0}
    await client.publish("$HEADRACE.LANDING.ORDERS", json.dumps(long).encode())
    await flush(client)
    await tab.resize(PHONE_WIDTH, 844, mobile=True)
    await tab.open(address(shop, "#/tables"))
    await tab.see("40", "running", "…/tables/all")
    await tab.until("document.querySelectorAll('tbody tr').length === 2")
    shown = await tab.evaluate(
        "[...document.querySelectorAll('th')].filter((one) => one.getBoundingClientRect().right <= "
        f"{PHONE_WIDTH}).map((one) => one.textContent)"
    )
    assert shown[:3] == ["Table", "Behind", "State"]
    await tab.photograph(PICTURES / "phone-tables-long.png")


async def test_a_dialog_and_a_toast_fit_a_phone(shop: Server, tab: Tab) -> None:
    await tab.resize(PHONE_WIDTH, 844, mobile=True)
    await tab.open(address(shop, "#/connections"))
    await tab.see("shop-frontend")
    await tab.evaluate("document.querySelector('td.acts button').click()")
    await tab.see("Most clients reconnect by themselves")
    right = "document.querySelector('{}').getBoundingClientRect().right"
    assert await tab.evaluate(right.format("dialog")) <= PHONE_WIDTH
    await tab.click("text=Close connection")
    await tab.until("document.querySelector('.toasts .notice')?.innerText.includes('is closed.')")
    assert await tab.evaluate(right.format(".toasts .notice")) <= PHONE_WIDTH


async def test_a_connection_is_found_looked_at_and_closed(shop: Server, tab: Tab, connect: Connecter) -> None:
    closed = asyncio.Event()

    async def on_closed() -> None:
        closed.set()

    client = await connect(shop.broker.port, name="noisy", closed_cb=on_closed)
    await client.subscribe("orders.*", queue="workers")
    await flush(client)
    await tab.open(address(shop, "#/connections"))
    await tab.see("shop-frontend", "noisy", "2 connections")
    await tab.photograph(PICTURES / "connections.png")
    await tab.click("text=Subs")
    await tab.until("document.querySelector('th[aria-sort]').textContent.trim() === 'Subs'")
    await tab.type("input[type=search]", "NOISY")
    await tab.see_no_more("shop-frontend")
    await tab.click("text=noisy")
    await tab.see("orders.*", "queue workers")
    await tab.click("text=Done")
    await tab.until("!document.querySelector('dialog')")
    await tab.click("text=Close")
    await tab.see("Most clients reconnect by themselves")
    await tab.click("text=Cancel")
    await tab.until("!document.querySelector('dialog')")
    assert not closed.is_set()
    await tab.click("text=Close")
    await tab.click("text=Close connection")
    await closed.wait()
    await tab.see("is closed.", "No connections match")


async def test_streams_lead_to_their_messages(shop: Server, tab: Tab) -> None:
    await tab.open(address(shop))
    await tab.click("text=Streams")
    await tab.see("ORDERS", "JOBS", "key-value", "workqueue, file")
    await tab.photograph(PICTURES / "streams.png")
    await tab.type("input[type=search]", "orders.>")
    await tab.see_no_more("JOBS")
    await tab.click("text=ORDERS")
    await tab.see("orders.fr", '"number": 39', "40 messages shown, scanned 40", "That is all.")
    await tab.click("text=40")
    await tab.see("Message 40", "Nats-Msg-Id", "o39", '"amount": 97.5')
    await tab.photograph(PICTURES / "messages.png")
    await tab.use_scheme("dark")
    await tab.photograph(PICTURES / "messages-dark.png")
    await tab.click("text=Hex")
    await tab.see("00000000  7b 22 6e 75")
    await tab.click("text=Text")
    await tab.see('{"number": 39, "amount": 97.5, "country": "FR"}')


async def test_messages_are_searched(shop: Server, tab: Tab) -> None:
    await tab.open(address(shop, "#/stream/$G/ORDERS"))
    await tab.see("40 messages shown")
    await tab.type("input[name=subject]", "orders.de")
    await tab.type("input[name=where]", 'amount > 50 and country = "DE"')
    await tab.click("text=Search")
    await tab.see("9 messages shown")
    await tab.type("input[name=where]", "amount >")
    await tab.click("text=Search")
    await tab.see("The filter cannot be read: a comparison ends with a value.")
    await tab.type("input[name=where]", "amount > 1000")
    await tab.click("text=Search")
    await tab.see("No messages match")
    await tab.type("input[name=where]", "")
    await tab.type("input[name=subject]", "")
    await tab.type("input[name=seq]", "3")
    await tab.choose("select[name=order]", "oldest")
    await tab.click("text=Search")
    await tab.see("38 messages shown")
    await tab.until("document.querySelector('tbody td').textContent === '3'")


async def test_a_message_is_deleted_and_the_stream_purged(shop: Server, tab: Tab) -> None:
    assert shop.jetstream is not None
    log = shop.jetstream.accounts["$G"].streams["ORDERS"].log
    await tab.open(address(shop, "#/stream/$G/ORDERS"))
    await tab.see("40 messages shown")
    await tab.click("text=40")
    await tab.click("text=Delete")
    await tab.see("overwritten on disk")
    await tab.click("text=Delete message")
    await tab.see("Message 40 is deleted.")
    assert not log.has(40)
    await tab.click("text=Purge…")
    await tab.until("document.querySelector('dialog button[type=submit]').disabled")
    await tab.photograph(PICTURES / "purge.png")
    await tab.type("dialog input[name=filter]", "orders.de")
    await tab.type("dialog input[name=confirm]", "ORDER")
    assert await tab.evaluate("document.querySelector('dialog button[type=submit]').disabled")
    await tab.type("dialog input[name=confirm]", "ORDERS")
    await tab.click("dialog button[type=submit]")
    await tab.see("20 messages purged from ORDERS.", "19 messages shown")
    assert log.count == 19


async def test_the_other_tabs_of_a_stream(shop: Server, tab: Tab) -> None:
    await tab.open(address(shop, "#/stream/$G/ORDERS"))
    await tab.click(".tabs a:nth-child(2)")
    await tab.see("orders.de", "orders.fr", "2 subjects")
    await tab.type("input[type=search]", "orders.d*")
    await tab.see("No subjects match")
    await tab.type("input[type=search]", "*.fr")
    await tab.see("1 subject")
    await tab.click(".tabs a:nth-child(3)")
    await tab.see("billing", "pull, durable, ack explicit")
    await tab.click("text=Configuration")
    await tab.see("max_msgs_per_subject", "no limit", "duplicate_window", "2 min")


async def test_a_consumer_is_paused_resumed_reset_and_deleted(shop: Server, tab: Tab) -> None:
    await tab.open(address(shop, "#/consumers"))
    await tab.see("billing", "ORDERS")
    await tab.photograph(PICTURES / "consumers.png")
    cells = "[...document.querySelectorAll('tbody td.n')].map((cell) => cell.textContent).slice(0, 2).join()"
    await tab.until(f"{cells} === '30,3'")
    await tab.click("text=Pause")
    await tab.choose("dialog select", "3600")
    await tab.click("dialog button[type=submit]")
    await tab.see("billing is paused.", "paused, 59 min left")
    await tab.click("text=Resume")
    await tab.click("dialog button[type=submit]")
    await tab.see("billing delivers again.")
    await tab.click("text=Reset")
    await tab.type("dialog input", "1")
    await tab.click("dialog button[type=submit]")
    await tab.see("billing is reset.")
    await tab.until(f"{cells} === '40,0'")
    await tab.click("text=Delete")
    await tab.click("text=Delete consumer")
    await tab.see("billing is deleted.", "No consumers")


async def test_publishing_and_asking(shop: Server, tab: Tab) -> None:
    await tab.open(address(shop, "#/publish"))
    await tab.type("input[name=subject]", "orders.us")
    await tab.type("textarea", '{"number": 41}')
    await tab.click("text=Add a header")
    await tab.type("input[aria-label='Header name']", "Nats-Msg-Id")
    await tab.type("input[aria-label='Header value']", "typed")
    await tab.click("button[type=submit]")
    await tab.see("Stored in ORDERS as message 41.")
    await tab.click("button[type=submit]")
    await tab.see("The stream ORDERS already has it, as 41.")
    await tab.type("input[name=subject]", "greet.anna")
    await tab.click("text=Request an answer")
    await tab.see('"hello": "anna"', "after")
    await tab.photograph(PICTURES / "publish.png")
    await tab.type("input[name=subject]", "nobody")
    await tab.click("text=Request an answer")
    await tab.see("No responders")
    await tab.click("button[type=submit]")
    await tab.see("nobody subscribes to this subject")
    await tab.type("input[name=subject]", "a b")
    await tab.click("button[type=submit]")
    await tab.see("A subject is dot-separated tokens")


async def test_keys_are_shown_edited_and_deleted(shop: Server, tab: Tab, connect: Connecter) -> None:
    client = await connect(shop.broker.port)
    bucket = await client.jetstream().key_value("config")
    await tab.open(address(shop, "#/buckets"))
    await tab.click("text=config")
    await tab.click("text=limits.orders")
    await tab.see("Revision 2", "History", "PUT")
    await tab.photograph(PICTURES / "keyvalue.png")
    await tab.click("text=Edit")
    await tab.type("dialog textarea", '{"most": 30}')
    await bucket.put("limits.orders", b"changed by another")
    await tab.click("dialog button[type=submit]")
    await tab.see("Somebody has changed this key in the meantime")
    await tab.click("text=Cancel")
    await tab.click("text=limits.orders")
    await tab.see("Revision 3")
    await tab.click("text=Edit")
    await tab.type("dialog textarea", '{"most": 30}')
    await tab.click("dialog button[type=submit]")
    await tab.see("limits.orders is saved.", "Revision 4", '"most": 30')
    assert (await bucket.get("limits.orders")).value == b'{"most": 30}'
    await tab.click("text=Delete")
    await tab.click("text=Delete key")
    await tab.see("This key is deleted.")
    await tab.click("text=Add a key")
    await tab.type("dialog input[name=key]", "features.search")
    await tab.type("dialog textarea", "on")
    await tab.click("dialog button[type=submit]")
    await tab.see("features.search", "2 keys")
    assert (await bucket.get("features.search")).value == b"on"


async def test_tables_show_how_far_they_are(shop: Server, tab: Tab, connect: Connecter) -> None:
    client = await connect(shop.broker.port)
    await tab.open(address(shop, "#/tables"))
    await tab.see("tables/orders", "delta, query land-orders", "running", "12.5", "37 in all, 3 deleted")
    cells = "[...document.querySelectorAll('tbody td.n')].map((cell) => cell.textContent.trim())"
    await tab.until(f"{cells}[0] === '3' && {cells}[2] === '2'")
    await tab.photograph(PICTURES / "tables.png")
    report = {**LANDING, "seq": 40, "state": "failed"}
    await client.publish("$HEADRACE.LANDING.ORDERS", json.dumps(report).encode())
    await flush(client)
    await tab.see("failed", "up to date")


async def test_everything_is_reached_with_the_keyboard(shop: Server, tab: Tab) -> None:
    await tab.open(address(shop, "#/streams"))
    await tab.see("ORDERS")
    reached = set()
    for _ in range(25):
        await tab.press("Tab", 9)
        reached.add(
            await tab.evaluate("document.activeElement.innerText || document.activeElement.ariaLabel")
        )
    assert {"Overview", "Publish", "Filter streams", "Stream", "Messages", "ORDERS"} <= reached
    unlabeled = """[...document.querySelectorAll("input, select, textarea, button")].filter((node) =>
        !node.ariaLabel && !node.labels?.length && !node.textContent.trim()).length"""
    for view in ("connections", "stream/$G/ORDERS", "consumers", "publish", "bucket/$G/config"):
        await tab.open(address(shop, f"#/{view}"))
        await tab.until(READY)
        assert await tab.evaluate(unlabeled) == 0, view


async def test_logging_in_and_out(streams: StreamServer, tab: Tab) -> None:
    users = (User(user="anna", password="secret"), User(user="looker", password="looks"))
    server = await streams(users=users, console=ConsoleOptions(read_only=("looker",)))
    await tab.open(address(server))
    await tab.see("Log in as a user of this server.")
    await tab.photograph(PICTURES / "login.png")
    await tab.type("input[name=user]", "anna")
    await tab.type("input[name=password]", "wrong")
    await tab.click("button[type=submit]")
    await tab.see("These credentials are not accepted.")
    await tab.type("input[name=password]", "secret")
    await tab.press("Enter", 13)
    await tab.see("Overview", "anna", "Live")
    assert await tab.evaluate("document.cookie") == ""
    await tab.click("text=Log out")
    await tab.see("Log in as a user of this server.")
    await tab.type("input[name=user]", "looker")
    await tab.type("input[name=password]", "looks")
    await tab.click("button[type=submit]")
    await tab.see("read-only")
    await tab.click("text=Publish")
    await tab.see("Your user is read-only")


async def test_logging_in_with_an_nkey_signs_in_the_browser(streams: StreamServer, tab: Tab) -> None:
    pair = KeyPair.create("user")
    server = await streams(users=(User(nkey=pair.public_key),))
    await tab.open(address(server))
    await tab.click("text=Credentials")
    await tab.type("textarea", pair.seed)
    await tab.click("button[type=submit]")
    await tab.see("Overview", "Live")
    sent = [url for url in tab.requested if "login" in url]
    assert sent


async def test_logging_in_with_a_token_of_operator_mode(start: Starter, tab: Tab, tmp_path: Path) -> None:
    """With the contents of a .creds file."""
    directory = tmp_path / "operator"
    command = [sys.executable, "-m", "headrace", "auth", "init", str(directory)]
    subprocess.run(command, check=True, capture_output=True)
    loaded = load_file(str(directory / "server.conf")).options
    given = {name: getattr(loaded, name) for name in ("trust", "system_account", "jetstream", "store_dir")}
    server = await start(**given)
    for creds, account in (("APP/app.creds", "app"), ("SYS/sys.creds", "sys")):
        await tab.open(address(server, "#/streams"))
        await tab.click("text=Credentials")
        await tab.type("textarea", (directory / "creds" / creds).read_text())
        await tab.click("button[type=submit]")
        await tab.see("Live", account, "No streams yet")
        await tab.click("text=Log out")
        await tab.see("Log in as a user of this server.")


async def test_an_operator_chooses_the_account(streams: StreamServer, tab: Tab, connect: Connecter) -> None:
    accounts = (
        AccountOptions("RED", jetstream=AccountLimits()),
        AccountOptions("BLUE", jetstream=AccountLimits()),
        AccountOptions("SYS"),
    )
    users = tuple(User(user=name.lower(), password="p", account=name) for name in ("RED", "BLUE", "SYS"))
    server = await streams(accounts=accounts, users=users, system_account="SYS")
    for name in ("red", "blue"):
        client = await connect(server.broker.port, user=name, password="p", name=f"{name}-client")
        await client.jetstream().add_stream(name=f"{name}-stream", subjects=["a"])
    await tab.open(address(server, "#/streams"))
    await tab.type("input[name=user]", "sys")
    await tab.type("input[name=password]", "p")
    await tab.press("Enter", 13)
    await tab.see("red-stream", "blue-stream")
    await tab.choose("select[aria-label=Account]", "BLUE")
    await tab.see_no_more("red-stream")
    await tab.click("text=Connections")
    await tab.see("blue-client")
    await tab.see_no_more("red-client")


async def test_the_page_says_that_the_server_is_gone_and_returns(shop: Server, tab: Tab) -> None:
    assert shop.monitor is not None
    await tab.open(address(shop))
    await tab.see("Live")
    handle = shop.monitor.http._handle

    async def break_off(request: Any) -> Any:
        raise ConnectionError

    shop.monitor.http._handle = break_off
    for task in shop.monitor.http._tasks:
        task.cancel()
    await tab.see("Reconnecting")
    shop.monitor.http._handle = handle
    await tab.see("Live")
