"""Opens a page in a real browser, Chromium, and tells what became of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import pytest

BROWSER_ITSELF = "not an origin"
"""Who asked for an address, in Chromium's log, if no page did."""


class Page(HTMLParser):
    """What a browser made of the page: its text, and what of it could load something."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text = ""
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "srcset")
        ]

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def find_browser() -> str:
    """The command. Without one the test is skipped, and in CI it fails: there it would go unnoticed."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is not None:
        return browser
    missing = "no Chromium on the path (chromium, chromium-browser or google-chrome)"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


@contextmanager
def open_page(address: str, profile: Path) -> Iterator[None]:
    """A page that stays open, and shows what it does by what it sends."""
    command = [
        *(find_browser(), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--disable-background-networking", "--ignore-certificate-errors", "--remote-debugging-port=0"),
        *(f"--user-data-dir={profile}", address),
    ]
    log = profile / "browser.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def browse(page: Path, profile: Path) -> tuple[Page, str, list[str]]:
    """Open a page in Chromium: the document as it is then, what the console said, what was requested."""
    browser = find_browser()
    log = profile / "net.json"
    command = [
        *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom"),
        *("--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"),
        *("--enable-logging=stderr", f"--user-data-dir={profile}", f"--log-net-log={log}", page.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    requested = [
        event["params"]["url"]
        for event in json.loads(log.read_text())["events"]
        if "url" in event.get("params", {})
        and event["params"].get("initiator", BROWSER_ITSELF) != BROWSER_ITSELF
    ]
    return Page(done.stdout), done.stderr, requested
