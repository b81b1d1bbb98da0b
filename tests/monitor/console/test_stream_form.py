"""Streams are created and edited in the console: what a form sends, what it may, and how it looks."""

from __future__ import annotations

from typing import Any

import pytest
from nats.js.api import StreamConfig

from headrace.config.console import ConsoleOptions
from headrace.config.identity import AccountLimits, AccountOptions, Permissions, SubjectRules, User
from headrace.monitor.console.acts import ACTS
from headrace.server import Server
from tests.chromium import Tab
from tests.monitor.conftest import Connecter
from tests.monitor.console.conftest import PICTURES, StreamServer, Visit, Visitor
from tests.monitor.console.test_page import PHONE_WIDTH, address

OF = {"account": "$G", "stream": "ORDERS"}


async def config_of(visitor: Visitor, stream: str = "ORDERS") -> dict[str, Any]:
    return dict((await visitor.view("stream", account="$G", stream=stream))["config"])


# -- what a form sends


async def test_a_stream_is_created_with_what_the_form_says(streams: StreamServer, visit: Visit) -> None:
    visitor = await visit(await streams())
    settings = {
        "subjects": "orders.>, returns.*\npaid",
        "retention": "interest",
        "storage": "memory",
        "discard": "new",
        "max_msgs": " 1000 ",
        "max_msgs_per_subject": "",
        "max_bytes": "64MB",
        "max_age": "1h30m",
        "max_msg_size": "1KiB",
        "description": "what was ordered",
    }
    await visitor.act("stream.create", **OF, settings=settings)
    config = await config_of(visitor)
    assert {name: config[name] for name in settings} == {
        "subjects": ["orders.>", "returns.*", "paid"],
        "retention": "interest",
        "storage": "memory",
        "discard": "new",
        "max_msgs": 1000,
        "max_msgs_per_subject": -1,
        "max_bytes": 64 << 20,
        "max_age": 5400 * 10**9,
        "max_msg_size": 1024,
        "description": "what was ordered",
    }
    view = await visitor.view("stream", **OF)
    assert view["settings"] == {
        **settings,
        "subjects": "orders.>\nreturns.*\npaid",
        "max_msgs": "1000",
        "max_bytes": "64MiB",
        "max_msg_size": "1KiB",
    }
    await visitor.act("stream.create", account="$G", stream="plain", settings={})
    assert (await config_of(visitor, "plain"))["subjects"] == ["plain"]


async def test_an_edit_changes_nothing_else(streams: StreamServer, visit: Visit, connect: Connecter) -> None:
    server = await streams()
    js = (await connect(server.broker.port)).jetstream()
    await js.add_stream(
        StreamConfig(
            name="ORDERS",
            subjects=["orders.>"],
            max_bytes=10**9,
            allow_direct=True,
            metadata={"team": "mill"},
        )
    )
    visitor = await visit(server)
    before = await config_of(visitor)
    await visitor.act("stream.update", **OF, settings={"max_age": "7d"})
    week = 7 * 86400 * 10**9
    assert await config_of(visitor) == {**before, "max_age": week}
    # what somebody else has changed since the form was opened stays
    await js.update_stream(StreamConfig(name="ORDERS", subjects=["orders.>", "paid"], allow_direct=True))
    await visitor.act("stream.update", **OF, settings={"max_msgs": "5"})
    config = await config_of(visitor)
    assert (config["subjects"], config["max_msgs"], config["max_bytes"]) == (["orders.>", "paid"], 5, -1)
    await visitor.act("stream.update", **OF, settings={"max_msgs": "", "max_age": ""})
    config = await config_of(visitor)
    assert (config["max_msgs"], config["max_age"]) == (-1, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_msgs": "many"}, "Most messages: 'many' is not a whole number."),
        ({"max_msgs": "9" * 5000}, "Most messages: "),
        ({"max_msgs": "0"}, "Most messages: from 1 to "),
        ({"max_bytes": "1.5GB"}, "Most bytes: '1.5GB' is not a size such as 1024, 64MB or 1GiB."),
        ({"max_bytes": "-1"}, "Most bytes: from 1 to "),
        ({"max_age": "a week"}, "Longest age: 'a week' is not a duration such as 30s, 1h30m or 2d."),
        ({"max_age": "1ms"}, "max age needs to be >= 100ms"),
        ({"max_msg_size": "4GB"}, "Largest message: from 1 to 2147483647; leave it empty for no limit."),
        ({"retention": "forever"}, "The request cannot be read"),
        ({"num_replicas": "3"}, "The request cannot be read"),
        ({"subjects": "a..b"}, "subject"),
        ({"subjects": "$JS.API.>"}, "subjects that overlap with jetstream api"),
    ],
)
async def test_what_cannot_be_is_explained(
    streams: StreamServer, visit: Visit, settings: dict[str, str], message: str
) -> None:
    visitor = await visit(await streams())
    await visitor.act("stream.create", account="$G", stream="THERE", settings={"max_msgs": "7"})
    status, text = await visitor.refused("stream.create", **OF, settings=settings)
    assert status in (400, 500)  # some errors of nats-server have the code 500
    assert message in text
    status, text = await visitor.refused("stream.update", account="$G", stream="THERE", settings=settings)
    assert status in (400, 500)
    assert message in text
    assert [one["name"] for one in (await visitor.view("streams"))["streams"]] == ["THERE"]
    assert (await config_of(visitor, "THERE"))["max_msgs"] == 7


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a/b", "*", ">", "a\0", "..", "x" * 300])
async def test_names_that_no_stream_has(streams: StreamServer, visit: Visit, name: str) -> None:
    visitor = await visit(await streams())
    status, _ = await visitor.refused("stream.create", account="$G", stream=name, settings={})
    assert status in (400, 500)
    status, _ = await visitor.refused("stream.update", account="$G", stream=name, settings={})
    assert status in (400, 404)
    assert (await visitor.view("streams"))["streams"] == []


# -- who may


async def test_no_act_is_open_to_a_read_only_user_or_without_the_token(
    streams: StreamServer, visit: Visit
) -> None:
    users = (User(user="anna", password="a"), User(user="looker", password="l"))
    server = await streams(users=users, console=ConsoleOptions(read_only=("looker",)))
    looker, anna = await visit(server), await visit(server)
    assert await looker.log_in(user="looker", password="l") == 200
    assert await anna.log_in(user="anna", password="a") == 200
    anna.token = looker.token  # another session's
    for name in ACTS:
        status, message = await looker.refused(name, **OF, settings={})
        assert (status, "read-only" in message) == (403, True), name
        status, message = await anna.refused(name, **OF, settings={})
        assert (status, "token" in message) == (403, True), name


async def test_the_permissions_of_the_user_apply_to_creating_and_editing(
    streams: StreamServer, visit: Visit
) -> None:
    rules = SubjectRules(allow=("$JS.API.STREAM.*.MINE", "$JS.API.STREAM.INFO.OTHER"))
    bobs = User(user="bob", password="b", permissions=Permissions(publish=rules))
    users = (User(user="anna", password="a"), bobs)
    server = await streams(users=users)
    anna, bob = await visit(server), await visit(server)
    assert await anna.log_in(user="anna", password="a") == 200
    assert await bob.log_in(user="bob", password="b") == 200
    await anna.act("stream.create", account="$G", stream="OTHER", settings={})
    await bob.act("stream.create", account="$G", stream="MINE", settings={})
    await bob.act("stream.update", account="$G", stream="MINE", settings={"max_msgs": "5"})
    for act, stream in (("stream.create", "THIRD"), ("stream.update", "OTHER")):
        status, message = await bob.refused(act, account="$G", stream=stream, settings={"max_msgs": "5"})
        assert (status, message.startswith("Permissions Violation for Publish to")) == (403, True)


# -- in a browser


async def test_a_stream_is_created_edited_purged_and_deleted(
    streams: StreamServer, tab: Tab, connect: Connecter
) -> None:
    server = await streams(server_name="mill-1")
    await tab.open(address(server, "#/streams"))
    await tab.see("No streams yet", "Create one here")
    await tab.click("text=Create a stream…")
    for scheme in ("light", "dark"):
        await tab.use_scheme(scheme)
        await tab.photograph(PICTURES / f"create-{scheme}.png")
    await tab.use_scheme("light")
    await tab.type("dialog input[name=stream]", "my orders")
    await tab.click("dialog button[type=submit]")
    await tab.see("A stream has a name, without spaces, dots, slashes and wildcards.")
    await tab.type("dialog input[name=stream]", "ORDERS")
    await tab.type("dialog textarea[name=subjects]", "orders.>")
    await tab.choose("dialog select[name=discard]", "new")
    await tab.type("dialog input[name=max_age]", "a week")
    await tab.click("dialog button[type=submit]")
    await tab.see("Longest age: 'a week' is not a duration")
    await tab.type("dialog input[name=max_age]", "7d")
    await tab.click("dialog button[type=submit]")
    await tab.see("The stream ORDERS is created.", "No messages")
    js = (await connect(server.broker.port)).jetstream()
    config = (await js.stream_info("ORDERS")).config
    assert (config.subjects, config.max_age, config.discard) == (["orders.>"], 7 * 86400, "new")
    for _ in range(3):
        await js.publish("orders.de", b"{}")
    await edit(server, tab)
    assert (await js.stream_info("ORDERS")).config.max_msgs == 2
    await tab.click("text=Purge…")
    await tab.type("dialog input[name=confirm]", "ORDERS")
    await tab.click("dialog button[type=submit]")
    await tab.see("2 messages purged from ORDERS.")
    await tab.click("text=Delete…")
    await tab.until("document.querySelector('dialog button[type=submit]').disabled")
    await tab.type("dialog input[name=confirm]", "ORDERS")
    await tab.click("dialog button[type=submit]")
    await tab.see("The stream ORDERS is deleted.", "No streams yet")


async def edit(server: Server, tab: Tab) -> None:
    """The stream ORDERS, which is open: two messages are enough."""
    await tab.click("text=Edit…")
    value = "document.querySelector('dialog [name={}]').value"
    await tab.until(f"{value.format('subjects')} === 'orders.>' && {value.format('max_age')} === '7d'")
    assert await tab.evaluate(f"{value.format('discard')}") == "new"
    assert await tab.evaluate("document.querySelector('dialog [name=storage]').disabled")
    await tab.see("A lower limit deletes the messages beyond it at once")
    await tab.choose("dialog select[name=discard]", "old")
    await tab.type("dialog input[name=max_msgs]", "2")
    await tab.click("dialog button[type=submit]")
    await tab.see("The stream ORDERS is saved.", "2 messages shown")
    await tab.click("text=Configuration")
    await tab.see("max_msgs", "7 d 0 h")


async def test_the_form_fits_a_phone(streams: StreamServer, tab: Tab) -> None:
    server = await streams()
    await tab.resize(PHONE_WIDTH, 844, mobile=True)
    await tab.open(address(server, "#/streams"))
    await tab.click("text=Create a stream…")
    await tab.until("!!document.querySelector('dialog')")
    fits = "[...document.querySelectorAll('dialog, dialog input, dialog select, dialog textarea')]"
    inside = f"{fits}.every((node) => node.getBoundingClientRect().right <= {PHONE_WIDTH})"
    assert await tab.evaluate(inside)
    assert await tab.evaluate("document.querySelector('dialog').scrollWidth") <= PHONE_WIDTH
    await tab.photograph(PICTURES / "phone-create.png")
    await tab.type("dialog input[name=stream]", "S")
    await tab.click("text=Create stream")
    await tab.see("The stream S is created.")
    await tab.photograph(PICTURES / "phone-created.png")


async def test_who_cannot_change_sees_no_form(streams: StreamServer, tab: Tab, visit: Visit) -> None:
    users = (User(user="anna", password="a"), User(user="looker", password="l"))
    server = await streams(users=users, console=ConsoleOptions(read_only=("looker",)))
    anna = await visit(server)
    assert await anna.log_in(user="anna", password="a") == 200
    await anna.act("stream.create", **OF, settings={})
    await tab.open(address(server, "#/streams"))
    await tab.type("input[name=user]", "looker")
    await tab.type("input[name=password]", "l")
    await tab.press("Enter", 13)
    await tab.see("read-only", "ORDERS")
    assert "Create a stream" not in await tab.text()
    await tab.click("text=ORDERS")
    await tab.see("No messages")
    assert "Edit…" not in await tab.text()


async def test_an_operator_chooses_the_account_of_a_new_stream(streams: StreamServer, tab: Tab) -> None:
    accounts = (
        AccountOptions("RED", jetstream=AccountLimits()),
        AccountOptions("BLUE", jetstream=AccountLimits()),
        AccountOptions("SYS"),
    )
    users = tuple(User(user=name.lower(), password="p", account=name) for name in ("RED", "BLUE", "SYS"))
    server = await streams(accounts=accounts, users=users, system_account="SYS")
    await tab.open(address(server, "#/streams"))
    await tab.type("input[name=user]", "sys")
    await tab.type("input[name=password]", "p")
    await tab.press("Enter", 13)
    await tab.click("text=Create a stream…")
    await tab.type("dialog input[name=stream]", "LOGS")
    await tab.choose("dialog select[name=account]", "BLUE")
    await tab.click("text=Create stream")
    await tab.see("The stream LOGS is created.")
    assert server.jetstream is not None
    assert list(server.jetstream.accounts["BLUE"].streams) == ["LOGS"]


async def test_a_stream_that_mirrors_another_is_edited_without_subjects(
    streams: StreamServer, tab: Tab, connect: Connecter
) -> None:
    server = await streams()
    client = await connect(server.broker.port)
    await client.jetstream().add_stream(name="ORIGIN", subjects=["o"])
    request = b'{"name": "COPY", "mirror": {"name": "ORIGIN"}}'
    await client.request("$JS.API.STREAM.CREATE.COPY", request)
    await tab.open(address(server, "#/stream/$G/COPY"))
    await tab.see("retention limits")
    await tab.click("text=Edit…")
    await tab.until("!!document.querySelector('dialog')")
    assert not await tab.evaluate("!!document.querySelector('dialog [name=subjects]')")
    await tab.type("dialog input[name=max_msgs]", "9")
    await tab.click("dialog button[type=submit]")
    await tab.see("The stream COPY is saved.")
