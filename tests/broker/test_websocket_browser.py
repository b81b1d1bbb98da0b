"""A page in a real browser publishes, subscribes, and is cut off when its user is removed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
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
from tests.broker.conftest import HOST, Running, Start
from tests.browser import open_page
from tests.certificates import shared

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
        assert running.broker.websocket
        client = await nats.connect(f"nats://{HOST}:{running.broker.port}", user="test", password="word")
        reports = await client.subscribe("report.*")
        await client.flush()
        page = f"{origin}/page.html?server={quote(running.broker.websocket.address)}"
        profile = tmp_path / "profile"
        profile.mkdir()
        with open_page(page, profile):
            ready = await reports.next_msg(PAGE_SECONDS)
            assert ready.subject == "report.ready"
            assert ("permessage-deflate" in ready.data.decode()) is compression
            for payload in (b"hello", b"long " * 5_000):
                await client.publish("to.page", payload)
                echo = await reports.next_msg(PAGE_SECONDS)
                assert (echo.subject, echo.data) == ("report.echo", payload.upper())
            remove_user(running, "page")
            closed = await reports.next_msg(PAGE_SECONDS)
        await client.close()
    assert (closed.subject, closed.data) == ("report.closed", b"1000 Client Closed")
