"""docs/backup.md as a newcomer follows it: its scripts and commands do what it says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nats

from headrace.streams.backup import sender
from tests.cli.commands import COMMAND, SECONDS, environment
from tests.servers import running_server
from tests.test_docs import ROOT, Terminal, section, split_session

PAGE = (ROOT / "docs" / "backup.md").read_text()


def scripts() -> dict[str, str]:
    return dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE))


def sessions(heading: str) -> list[tuple[str, str]]:
    blocks = re.findall(r"^```console\n(.*?)^```", section(PAGE, heading), flags=re.DOTALL | re.MULTILINE)
    return [command for block in blocks for command in split_session(block)]


def run(line: str, directory: Path, url: str) -> str:
    words = shlex.split(line)
    command = {"python": [sys.executable], "headrace": COMMAND}.get(words[0], [words[0]])
    done = subprocess.run(
        [*command, *words[1:]],
        cwd=directory,
        env=environment(NATS_URL=url),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.stdout + done.stderr


async def fill(url: str) -> None:
    client = await nats.connect(url)
    jetstream = client.jetstream(timeout=SECONDS)
    await jetstream.add_stream(name="ORDERS", subjects=["orders.>"])
    for number in range(3):
        await jetstream.publish(f"orders.{number}", b"%d" % number)
    await client.close()


async def state(url: str) -> dict[str, int]:
    client = await nats.connect(url)
    answer = json.loads((await client.request("$JS.API.STREAM.INFO.ORDERS", timeout=SECONDS)).data)
    await client.close()
    return {key: answer["state"][key] for key in ("messages", "first_seq", "last_seq")}


async def test_the_page_shows_what_happens(tmp_path: Path) -> None:
    for name, text in scripts().items():
        (tmp_path / name).write_text(text)
    store = tmp_path / "headrace-data"
    with (
        running_server("headrace", "", ["-js", "-sd", str(store)]) as server,
        contextlib.ExitStack() as stack,
    ):
        url = f"nats://{server.host}:{server.port}"
        await fill(url)
        before = await state(url)
        one = sessions("## One stream")
        assert [line.split()[0] for line, _ in one] == ["python", "python", "headrace", "python"]
        for line, shown in one:
            assert (await asyncio.to_thread(run, line, tmp_path, url)).strip() == shown.strip()
        assert await state(url) == before
        (copy, _), (serve, _) = sessions("## The whole server")
        assert run(copy, tmp_path, url) == ""
        words = shlex.split(serve.replace("4223", "-1"))
        terminal = Terminal([*COMMAND, *words[1:]], tmp_path / "screen", {})
        stack.callback(terminal.process.wait, SECONDS)
        stack.callback(terminal.process.kill)
        await asyncio.to_thread(terminal.wait_for, "Ctrl-C stops")
        (copied,) = set(re.findall(r"nats://[\d.:]+", terminal.screen))
        assert await state(copied) == before


def test_the_sizes_are_those_of_the_server() -> None:
    kibibyte = 1024
    assert kibibyte == sender.SMALLEST
    assert 128 * kibibyte == sender.DEFAULT_CHUNK
    assert kibibyte**2 == sender.LARGEST_CHUNK
    assert 8 * kibibyte**2 == sender.DEFAULT_WINDOW
    assert 32 * kibibyte**2 == sender.LARGEST_WINDOW
    assert sender.ACKNOWLEDGEMENT_SECONDS == 5
