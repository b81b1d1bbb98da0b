"""What tokens call accounts and users is shown wherever nats-server shows it: to the user itself, to services
that it shares its information with, in the log and on the pages of the monitor."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import Any

import pytest

from headrace.keys import claims as c
from headrace.keys.nkeys import KeyPair
from tests.interop import tokens
from tests.interop.session import connect_line, pub
from tests.interop.signatures import fill_in_signatures, find_nonce, signature
from tests.interop.wire import Wire
from tests.servers import Server, ServerKind, running_server

NAMES = (
    "user",
    "acc",
    "account",
    "account_name",
    "user_name",
    "name_tag",
    "account_tag",
    "issuer_key",
    "tags",
)
SERVICE = c.Export(subject="service", type="service")
SHARED = c.Import(subject="service", account=tokens.ONE.public_key, type="service", share=True)
STREAMS = {"disk_storage": -1, "mem_storage": -1, "streams": -1, "consumer": -1}
TOKENS = tokens.memory_settings(
    tokens.account_token(tokens.SYSTEM, "system"),
    tokens.account_token(tokens.ONE, "one and only", exports=[SERVICE]),
    tokens.account_token(
        tokens.TWO, "two", imports=[SHARED], signing_keys=[tokens.SIGNER.public_key], limits=STREAMS
    ),
)
ANNA = tokens.login(tokens.user_token(name="anna"))
BERT = tokens.login(
    tokens.user_token(
        tokens.OTHER_USER,
        signer=tokens.SIGNER,
        account=tokens.TWO,
        name="bert",
        tags=["team:red"],
        pub=c.SubjectList(deny=["secret"]),
    ),
    tokens.OTHER_USER,
)
KEY = KeyPair("user", bytes([7]) * 32)
NKEYS = f"""
accounts {{
  ONE {{ users: [{{ user: anna, password: x }}], exports: [{{ service: service }}] }}
  TWO {{
    users: [{{ nkey: {KEY.public_key}, permissions: {{ publish: {{ deny: secret }} }} }}]
    imports: [{{ service: {{ account: ONE, subject: service }}, share: true }}], jetstream: enabled
  }}
}}
"""
BY_NKEY = connect_line(nkey=KEY.public_key, sig=signature(KEY))
SETUPS = {
    "tokens": (TOKENS, ANNA, BERT),
    "nkeys": (NKEYS, connect_line(user="anna", **{"pass": "x"}), BY_NKEY),
}


def enter(server: Server, login: bytes) -> Wire:
    wire = Wire(server.host, server.port)
    wire.read_line()
    nonce = find_nonce(wire.take())
    wire.write(fill_in_signatures(login, nonce))
    wire.synchronise()
    wire.take()
    return wire


def names_in(document: Any) -> Any:
    """Only the names, wherever they are."""
    if isinstance(document, list):
        return [names_in(entry) for entry in document]
    return {name: document[name] for name in NAMES if name in document}


def names_shown(kind: ServerKind, setup: str, directory: str) -> dict[str, Any]:
    text, anna, bert = SETUPS[setup]
    flags = ["-m", "-1", "-js", "-sd", directory]
    with running_server(kind, text, flags) as server:
        service, client = enter(server, anna), enter(server, bert)
        service.write(b"SUB service 1\r\n")
        service.synchronise()
        client.write(b"SUB in 1\r\n" + pub(b"secret") + pub(b"service", b"", b"in"))
        service.read_messages(1)
        client.write(pub(b"$SYS.REQ.USER.INFO", b"", b"in"))
        client.read_messages(1)
        info = json.loads(re.findall(rb"\r\n(\{.*\})\r\n", client.take())[0])["data"]
        request = json.loads(re.findall(rb"Nats-Request-Info: (.*)\r\n", service.take())[0])
        monitor = int(re.findall(r"Starting http monitor on \S+:(\d+)", server.log())[0])
        pages = {
            page: json.load(urllib.request.urlopen(f"http://{server.host}:{monitor}/{page}"))
            for page in ("connz?auth=1", "subsz?subs=1", "jsz?accounts=1")
        }
        cids = [entry["cid"] for entry in pages["connz?auth=1"]["connections"]]
        refusal = re.findall(r"cid:\d+ - (.*)", server.wait_for_log("Publish Violation"))
        service.hang_up()
        client.hang_up()
    subscriptions = pages["subsz?subs=1"]["subscriptions_list"]
    return {
        "info": {**names_in(info), "permissions": info["permissions"]},
        "request": names_in(request),
        "connections": names_in(pages["connz?auth=1"]["connections"]),
        "subscriptions": sorted(str(names_in(one)) for one in subscriptions if one["cid"] in cids),
        "streams": [(one["name"], one["id"]) for one in pages["jsz?accounts=1"]["account_details"]],
        "log": refusal,
    }


@pytest.mark.parametrize("setup", SETUPS)
def test_the_names_are_those_of_nats_server(setup: str, tmp_path: Any) -> None:
    theirs = names_shown("nats-server", setup, str(tmp_path / "theirs"))
    ours = names_shown("headrace", setup, str(tmp_path / "ours"))
    assert ours == theirs
