"""The page about events and traces: its example prints what it says, and it names every subject."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import headrace.monitor.system.events as events
from tests.servers import running_server

TEXT = (Path(__file__).parents[3] / "docs" / "events.md").read_text()


def test_the_example_prints_what_the_page_says() -> None:
    ((code, expected),) = re.findall(r"```python\n(.*?)```\n\nprints\n\n```\n(.*?)```", TEXT, re.DOTALL)
    with running_server("headrace") as server:
        code = code.replace("nats://127.0.0.1:4222", f"nats://{server.host}:{server.port}")
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == expected


def test_its_configurations_are_accepted() -> None:
    for config in re.findall(r"```\n(accounts.*?)```", TEXT, re.DOTALL):
        with running_server("headrace", config):
            pass


def test_every_subject_is_on_the_page() -> None:
    documented = set(re.findall(r"`(\$SYS[^`]*)`", TEXT))
    described = set(re.findall(r"\$SYS\.[^\s,]+", events.__doc__ or ""))
    assert described
    assert described <= documented
