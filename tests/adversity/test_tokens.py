"""Seeds, tokens, signatures and what a callout is told stay out of everything that the server shows."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import nats
import nats.errors

from headrace.cli.command import run
from headrace.keys.creds import parse_creds
from headrace.keys.jwt import encode_base64url
from headrace.keys.nkeys import KeyPair
from tests.adversity.test_credentials import PAGES, page
from tests.clients import flush
from tests.servers import Server, running_server

CANARY = "c4nary"


async def say(server: Server, **fields: Any) -> bytes:
    """Send a CONNECT with these fields, and read what comes back."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    info = json.loads((await reader.readline())[5:])
    if isinstance(fields.get("sig"), KeyPair):
        fields["sig"] = encode_base64url(fields["sig"].sign(info["nonce"].encode()))
        signatures.append(fields["sig"])
    writer.write(b"CONNECT " + json.dumps({"verbose": False, **fields}).encode() + b"\r\nPING\r\n")
    received = b""
    with contextlib.suppress(ConnectionError):
        while b"PONG" not in received and (piece := await asyncio.wait_for(reader.readline(), 30)):
            received += piece
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return received


signatures: list[str] = []


def assert_hidden(server: Server, secrets: list[str]) -> None:
    shown = [
        server.log(),
        Path(f"/proc/{server.process.pid}/cmdline").read_text(),
        Path(f"/proc/{server.process.pid}/environ").read_text(),
        *(page(server, path) for path in PAGES),
    ]
    found = [secret[:8] for secret in secrets for text in shown if secret in text]
    print(f"{len(secrets)} secrets in log, argv, environment and {len(PAGES)} pages: {len(found)}")
    assert found == []


async def test_seeds_and_tokens_are_in_no_log_argument_trace_or_page(
    tmp_path: Path, monkeypatch: Any
) -> None:
    directory = tmp_path / "nats"
    assert run(["auth", "init", str(directory)]) == 0
    assert run(["auth", "user", "bert", "--dir", str(directory)]) == 0
    token, pair = parse_creds((directory / "creds/APP/app.creds").read_text())
    bearer, other = parse_creds((directory / "creds/APP/bert.creds").read_text())
    secrets = [path.read_text().strip() for path in (directory / "keys").rglob("*.nk")]
    secrets += [pair.seed, other.seed, token, bearer, token.split(".")[2], *seeds_of(directory)]
    flags = ["-c", str(directory / "server.conf"), "-DV", "-m", "-1"]
    with running_server("headrace", flags=flags) as server:
        assert (await say(server, jwt=token, sig=pair)).endswith(b"PONG\r\n")
        client = await nats.connect(
            f"nats://{server.host}:{server.port}",
            user_credentials=str(directory / "creds/APP/bert.creds"),
            allow_reconnect=False,
        )
        for fields in (
            {"jwt": token, "sig": other},
            {"jwt": token},
            {"jwt": token + "x", "sig": pair},
            {"jwt": pair.seed, "sig": pair},  # by mistake
            {"nkey": pair.seed, "sig": pair},
            {"user": "me", "pass": f"{CANARY}-pass", "auth_token": f"{CANARY}-token"},
        ):
            assert b"Authorization Violation" in await say(server, **fields)
        url = f"nats://{server.host}:{server.port}"
        await asyncio.to_thread(run, ["auth", "revoke", "bert", "--dir", str(directory), "--server", url])
        server.wait_for_log("User Authentication Revoked")
        await client.close()
        assert_hidden(server, [*secrets, *signatures, CANARY])


def seeds_of(directory: Path) -> list[str]:
    return [parse_creds(path.read_text())[1].seed for path in directory.rglob("*.creds")]


async def test_what_a_callout_is_told_is_in_no_log_or_page(tmp_path: Path) -> None:
    issuer = KeyPair.create("account")
    settings = (
        "http: 127.0.0.1:-1\nauthorization { timeout: 30, users: [{user: service, password: word}], "
        f"auth_callout {{ issuer: {issuer.public_key}, auth_users: [service] }} }}"
    )
    with running_server("headrace", settings, ["-DV"]) as server:
        service = await nats.connect(f"nats://service:word@{server.host}:{server.port}")
        requests: list[str] = []

        async def refuse(message: Any) -> None:
            requests.append(message.data.decode())
            await message.respond(b"no")

        await service.subscribe("$SYS.REQ.USER.AUTH", cb=refuse)
        await flush(service)
        for fields in (
            {"user": "x", "pass": f"{CANARY}-pass"},
            {"auth_token": f"{CANARY}-token"},
            {"jwt": f"{CANARY}-jwt", "sig": f"{CANARY}-sig"},
        ):
            assert b"Authorization Violation" in await say(server, **fields)
        assert len(requests) == 3
        await service.close()
        assert_hidden(server, [CANARY, *(request.split(".")[1][:100] for request in requests)])
