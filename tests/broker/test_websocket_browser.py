"""A page in a real browser publishes, subscribes, and is cut off when its user is removed or revoked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import msgspec
import nats
import pytest

from headrace.config.identity import User
from headrace.config.tls.context import with_files
from headrace.config.tls.settings import CertificateFiles, TlsSettings
from headrace.config.websocket import WebSocketOptions
from tests.accounts.test_operator import trust_of, update
from tests.broker.conftest import HOST, Running, Start
from tests.browser import open_page
from tests.certificates import shared
from tests.clients import flush
from tests.interop.tokens import ISSUED_AT, ONE, OTHER_USER, USER, account_token, user_token

PAGE_SECONDS = 60.0  # until a browser has started on a busy machine
USERS = (User("page", "word"), User("witness", "word"), User("test", "word"))


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def served_pages() -> Iterator[str]:
    """This folder, by HTTP."""
    with ThreadingHTTPServer(
        (HOST, 0), partial(QuietHandler, directory=str(Path(__file__).parent))
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://{HOST}:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def remove_user(running: Running, name: str) -> None:
    fewer = tuple(user for user in USERS if user.user != name)
    options = msgspec.structs.replace(running.broker.options, users=fewer)
    running.broker.reload(options, auth_changed=True, info_changed=True)


async def talk_until_cut_off(
    running: Running, client: nats.NATS, page: str, cut_off: Callable[[], None], profile: Path
) -> tuple[str, str]:
    """The page echoes what it gets. Returns its compression, and what it saw when it was cut off."""
    assert running.broker.websocket
    reports = await client.subscribe("report.*")
    await flush(client)
    profile.mkdir()
    with open_page(f"{page}&server={quote(running.broker.websocket.address)}", profile):
        ready = await reports.next_msg(PAGE_SECONDS)
        assert ready.subject == "report.ready"
        for payload in (b"hello", b"long " * 5_000):
            await client.publish("to.page", payload)
            echo = await reports.next_msg(PAGE_SECONDS)
            assert (echo.subject, echo.data) == ("report.echo", payload.upper())
        cut_off()
        closed = await reports.next_msg(PAGE_SECONDS)
    assert closed.subject == "report.closed"
    return ready.data.decode(), closed.data.decode()


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("compression", "over_tls"), [(False, False), (True, False), (True, True)])
async def test_a_page_talks_and_is_cut_off_when_its_user_is_removed(
    start: Start, tmp_path: Path, compression: bool, over_tls: bool
) -> None:
    certificate = CertificateFiles(shared().server.certificate, shared().server.key)
    tls = with_files(TlsSettings(certificates=(certificate,))) if over_tls else None
    with served_pages() as origin:
        block = WebSocketOptions(
            host=HOST, port=-1, no_tls=not tls, tls=tls, compression=compression, allowed_origins=(origin,)
        )
        running = start(websocket=block, users=USERS)
        client = await nats.connect(f"nats://{HOST}:{running.broker.port}", user="test", password="word")
        extensions, closed = await talk_until_cut_off(
            running,
            client,
            f"{origin}/page.html?",
            lambda: remove_user(running, "page"),
            tmp_path / "profile",
        )
        await client.close()
    assert ("permessage-deflate" in extensions) is compression
    assert closed == "1000 Client Closed"


@pytest.mark.timeout(180)
async def test_a_page_with_a_token_in_a_cookie_is_cut_off_when_the_token_is_revoked(
    start: Start, tmp_path: Path
) -> None:
    own, witness = (user_token(user, bearer_token=True) for user in (USER, OTHER_USER))
    with served_pages() as origin:
        block = WebSocketOptions(
            host=HOST, port=-1, no_tls=True, allowed_origins=(origin,), jwt_cookie="nats_jwt"
        )
        running = start(websocket=block, **trust_of(account_token(ONE)))
        client = await running.client(
            user_jwt_cb=lambda: bytearray(witness.encode()), signature_cb=lambda _: b""
        )
        revoked = account_token(ONE, revocations={USER.public_key: ISSUED_AT})
        _, closed = await talk_until_cut_off(
            running,
            client,
            f"{origin}/page.html?cookie={own}&witness={witness}",
            lambda: update(running, revoked),
            tmp_path / "profile",
        )
    assert closed == "1008 Credentials Revoked"
