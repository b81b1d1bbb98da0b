"""The console while the demo runs: its address is the first line, and the page shows the demo live."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chromium import Tab, open_tab, running_chromium
from tests.cli.commands import environment
from tests.demo.test_demo import COMMAND, ROOT

SPARK_SECONDS = 240.0
"""Until Spark has started and landed a first batch, on a busy machine."""
FIGURES = "[...document.querySelectorAll('tbody tr')].map((row) => row.innerText).join('\\n')"


@contextmanager
def running_demo(directory: Path) -> Iterator[str]:
    """The address of its console."""
    arguments = ["--seconds", "300", "--rate", "200", "--directory", str(directory / "run")]
    with subprocess.Popen(
        [*COMMAND, *arguments], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert first.startswith("Console: http://127.0.0.1:"), first
            yield first.split()[1]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


async def until_shown(tab: Tab, expression: str, seconds: float) -> None:
    """As `tab.until`, with more patience."""
    async with asyncio.timeout(seconds):
        while not await tab.evaluate(expression):
            await asyncio.sleep(0.5)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_the_console_shows_the_demo_live(tmp_path: Path) -> None:
    profile = tmp_path / "chromium"
    profile.mkdir()
    with running_chromium(profile) as devtools, running_demo(tmp_path) as address:
        async with open_tab(devtools) as tab:
            await tab.open(f"{address}#/streams")
            await until_shown(tab, "document.body?.innerText.includes('ALERTS')", SPARK_SECONDS)
            await tab.see("ORDERS", "Live")
            await tab.open(f"{address}#/tables")
            landed = "(document.body?.innerText ?? '').includes('tables/orders')"
            await until_shown(tab, landed, SPARK_SECONDS)
            await tab.see("tables/revenue", "running", "ORDERS")
            shown = await tab.evaluate(FIGURES)
            await until_shown(tab, f"{FIGURES} !== {json.dumps(shown)}", 120)  # it moves by itself
            await tab.open(f"{address}#/streams")
            await tab.see("ORDERS")
            before = await tab.evaluate(FIGURES)
            await until_shown(tab, f"{FIGURES} !== {json.dumps(before)}", 120)
            assert tab.errors == []
