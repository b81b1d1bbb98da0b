"""Tab completion, asked for by a real bash."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from nats import connect

from tests.cli.commands import SECONDS, assert_one_error_line, environment
from tests.cli.more.conftest import Broker
from tests.cli.more.in_process import run_here

BASH = shutil.which("bash")
HERE = str(Path(sys.executable).parent)
# What bash does at a tab: call the function with the words, and look at COMPREPLY.
SCRIPT = """
set -u
complete() { :; }
compopt() { :; }
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_headrace_completion headrace
printf '%s\\n' "${COMPREPLY[@]-}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "headrace.bash"
    path.write_text(run_here("completion", "bash").text)
    return path


def completions(script: Path, *words: str, url: str = "nats://127.0.0.1:1", **variables: str) -> list[str]:
    """What bash proposes for the last of the words."""
    assert BASH
    done = subprocess.run(
        [BASH, "--norc", "--noprofile", "-c", SCRIPT, "bash", str(script), "headrace", *words],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment(NATS_URL=url, **variables) | {"PATH": f"{HERE}:/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def named(script: Path, *words: str, url: str = "nats://127.0.0.1:1") -> list[str]:
    """As `completions`, of a server that has some. One that takes more than a second is asked again."""
    deadline = time.monotonic() + SECONDS
    while not (found := completions(script, *words, url=url)) and time.monotonic() < deadline:
        pass
    return found


def test_commands_and_options(script: Path) -> None:
    assert {"kv", "object", "top", "events", "check", "completion"} <= set(completions(script, ""))
    assert completions(script, "check", "connection", "--format", "prom") == ["prometheus"]


def test_names_come_from_the_server(broker: Broker, script: Path) -> None:
    async def add_consumer() -> None:
        client = await connect(broker.url)
        await client.jetstream(timeout=30).add_consumer("KV_shop-config", durable_name="worker")
        await client.close()

    for bucket in ("shop-config", "shop-prices", "other"):
        broker.ok("kv", "add", bucket)
    broker.ok("kv", "put", "shop-config", "db.host", "x")
    broker.ok("object", "add", "shop-files")
    broker.ok("object", "put", "shop-files", "--name", "a.txt", stdin=b"x")
    asyncio.run(add_consumer())
    assert named(script, "kv", "get", "shop", url=broker.url) == ["shop-config", "shop-prices"]
    assert named(script, "kv", "get", "shop-config", "", url=broker.url) == ["db.host"]
    assert named(script, "object", "get", "shop-files", "", url=broker.url) == ["a.txt"]
    words = ("check", "consumer", "-s", broker.url, "--stream")
    streams = named(script, *words, "")
    assert streams == ["KV_other", "KV_shop-config", "KV_shop-prices", "OBJ_shop-files"]
    assert named(script, *words, "KV_shop-config", "--consumer", "w") == ["worker"]


def test_no_server_means_no_names(script: Path) -> None:
    assert completions(script, "kv", "get", "") == []
    assert completions(script, "kv", "get", "", url="no url at all://") == []
    assert completions(script, "kv", "get", "", NATS_CREDS="/nowhere") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(shell: str, tmp_path: Path) -> None:
    text = run_here("completion", shell).text
    assert "_HEADRACE_COMPLETE" in text
    assert f"{shell}_complete" in text
    if found := shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(text)
        assert subprocess.run([found, "-n", str(path)], timeout=SECONDS).returncode == 0


def test_an_unknown_shell() -> None:
    assert_one_error_line(run_here("completion", "tcsh"), "tcsh", code=2)
