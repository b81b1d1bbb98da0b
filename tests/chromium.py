"""Drives a real Chromium over the DevTools protocol: opens pages, clicks, types, and reads what a user sees.

    async with open_tab(browser) as tab:
        await tab.open(address)
        await tab.click("text=Streams")
        await tab.see("ORDERS")

Every wait is for something that the page shows, with one patient limit for a busy machine.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.browser import find_browser

PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.02

# What is found by `text=…` has exactly this text, or this label, and can be seen.
FIND = """
(selector) => {
  const isSeen = (node) => node.checkVisibility ? node.checkVisibility() : true;
  if (!selector.startsWith("text=")) return [...document.querySelectorAll(selector)].find(isSeen) || null;
  const wanted = selector.slice(5);
  const scope = document.querySelector("dialog[open]") || document;
  const kinds = "a, button, [role=button], label, option, h1, h2, td, span, b, code";
  const nodes = [...scope.querySelectorAll(kinds)];
  const clean = (text) => text.trim().replace(/\\s+/g, " ");
  const isIt = (node) => clean(node.textContent) === wanted || node.getAttribute("aria-label") === wanted;
  return nodes.find((node) => isSeen(node) && isIt(node)) || null;
}
"""

# Where it is once it has stopped moving: what is above it may still be loading.
PLACE = f"""
async (selector) => {{
  const find = {FIND};
  const frame = () => new Promise(requestAnimationFrame);
  for (let before = "", quiet = 0; ; ) {{
    const node = find(selector);
    node?.scrollIntoView({{ block: "nearest" }});
    const box = node?.getBoundingClientRect();
    const place = box ? `${{box.x}},${{box.y}},${{box.width}}` : "";
    quiet = place && place === before ? quiet + 1 : 0;
    if (quiet >= 3) return [box.x + Math.min(box.width / 2, 40), box.y + box.height / 2];
    before = place;
    await frame();
  }}
}}
"""


@contextmanager
def running_chromium(profile: Path) -> Iterator[str]:
    """Yields the address of its DevTools. Skips the test if there is no Chromium."""
    command = [
        *(find_browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
        *("--ignore-certificate-errors", "--force-color-profile=srgb", "--remote-debugging-port=0"),
        *(f"--user-data-dir={profile}", "about:blank"),
    ]
    log = profile / "chromium.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        end = time.monotonic() + PATIENCE_SECONDS
        while b"DevTools listening on " not in log.read_bytes():
            assert process.poll() is None, log.read_text(errors="replace")
            assert time.monotonic() < end, log.read_text(errors="replace")
            time.sleep(POLL_SECONDS)
        yield log.read_text(errors="replace").split("DevTools listening on ")[1].split()[0]
    finally:
        process.terminate()
        process.wait(30)


class Tab:
    """One page, without cookies and storage, so that nothing is left of other tests."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._session = ""
        self._target = ""
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.errors: list[str] = []
        """Exceptions, console errors, and what the Content-Security-Policy refused."""
        self.refusals: list[str] = []
        self.requested: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            document = json.loads(message.data)
            if "id" in document:
                self._answers.pop(document["id"]).set_result(document)
            else:
                self._note(document["method"], document.get("params", {}))

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:2000])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            is_answer = params["entry"]["source"] == "network"  # a refused request, or a broken connection
            (self.refusals if is_answer else self.errors).append(
                params["entry"]["text"] + " " + params["entry"].get("url", "")
            )
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(json.dumps(params["args"])[:2000])
        elif method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[self._number] = answer
        document: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            document["sessionId"] = self._session
        await self._socket.send_json(document)
        result = await asyncio.wait_for(answer, PATIENCE_SECONDS)
        assert "error" not in result, f"{method}: {result['error']}"
        found: dict[str, Any] = result["result"]
        return found

    async def attach(self) -> None:
        """A tab, and not a browser context of its own: that is a window, which takes three times as long."""
        self._target = (await self.send("Target.createTarget", url="about:blank"))["targetId"]
        attached = await self.send("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.send(f"{domain}.enable")
        await self.send("Network.clearBrowserCookies")
        await self.send("Network.clearBrowserCache")
        await self.send("Storage.clearDataForOrigin", origin="*", storageTypes="all")
        await self.resize()

    async def close(self) -> None:
        """Also the page: it would keep asking its server for news, and look for it when it is gone."""
        self._session = ""
        if self._target:
            await self.send("Target.closeTarget", targetId=self._target)
        self._reading.cancel()

    # -- looking

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        result = await self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    async def until(self, expression: str) -> Any:
        """Wait until an expression is true; its value."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not (value := await self.evaluate(expression)):
            assert time.monotonic() < end, f"{expression} stays false; the page shows:\n{await self.text()}"
            await asyncio.sleep(POLL_SECONDS)
        return value

    async def text(self) -> str:
        """What a user can read."""
        text: str = await self.evaluate("document.body?.innerText ?? ''")
        return text

    async def see(self, *texts: str) -> None:
        """Wait until the page shows all of these."""
        for text in texts:
            await self.until(f"(document.body?.innerText ?? '').includes({json.dumps(text)})")

    async def see_no_more(self, text: str) -> None:
        await self.until(f"!(document.body?.innerText ?? '').includes({json.dumps(text)})")

    # -- acting

    async def open(self, address: str) -> None:
        await self.send("Page.navigate", url=address)

    async def _place(self, selector: str) -> tuple[float, float]:
        await self.until(f"!!({FIND})({json.dumps(selector)})")
        place = await self.evaluate(f"({PLACE})({json.dumps(selector)})")
        return place[0], place[1]

    async def click(self, selector: str) -> None:
        """With the mouse, where a user would."""
        x, y = await self._place(selector)
        for kind in ("mousePressed", "mouseReleased"):
            await self.send(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1, buttons=1
            )

    async def type(self, selector: str, text: str) -> None:
        """Replace what a field has."""
        await self.click(selector)
        await self.evaluate(f"({FIND})({json.dumps(selector)}).select?.()")
        if text:
            await self.send("Input.insertText", text=text)
        else:
            await self.press("Delete", 46)

    async def press(self, key: str, code: int) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            await self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )
        if key == "Enter":
            await self.send("Input.dispatchKeyEvent", type="char", text="\r")

    async def choose(self, selector: str, value: str) -> None:
        await self.until(f"!!document.querySelector({json.dumps(selector)})")
        await self.evaluate(
            f"(() => {{ const node = document.querySelector({json.dumps(selector)});"
            f" node.value = {json.dumps(value)};"
            " node.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    # -- how it looks

    async def resize(self, width: int = 1360, height: int = 860, *, mobile: bool = False) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if mobile else 1,
            mobile=mobile,
        )

    async def use_scheme(self, scheme: str) -> None:
        """`light` or `dark`."""
        await self.send(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    async def photograph(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        shot = await self.send("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))


@asynccontextmanager
async def open_tab(devtools: str) -> AsyncIterator[Tab]:
    async with aiohttp.ClientSession() as client, client.ws_connect(devtools, max_msg_size=0) as socket:
        tab = Tab(socket)
        try:
            await tab.attach()
            yield tab
        finally:
            await tab.close()
