"""The scripts in examples/ run, and what they print is what they promise. The demo has tests of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import environment

EXAMPLES = Path(__file__).parents[2] / "examples"
MAXIMUM_LINES = 40

PRINTED = {
    "publish_subscribe.py": "greet.anna: Hello, Anna\ngreet.bob: Hello, Bob\ngreet.bye: That was all\n",
    "request_reply.py": "1 + 2 + 3 = 6\nmath.divide: nobody answers",
    "queue_group.py": "300 jobs: anna did ",
    "embedded_server.py": "greet.anna: Hello from inside\n",
}


def run_example(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        timeout=55,
        env=environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_is_tested() -> None:
    examples = {path.name for path in EXAMPLES.glob("*.py")} - {"__init__.py"}
    assert examples == {*PRINTED, "oidc_auth.py"}  # which tests/accounts/test_python_hook.py runs


@pytest.mark.parametrize("name", ["publish_subscribe.py", "request_reply.py", "queue_group.py"])
def test_client_example(name: str, url: str) -> None:
    assert PRINTED[name] in run_example(name, url)


def test_embedded_server() -> None:
    assert PRINTED["embedded_server.py"] in run_example("embedded_server.py")


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_examples_are_short_and_say_how_to_run_them(name: str) -> None:
    text = (EXAMPLES / name).read_text()
    assert text.count("\n") <= MAXIMUM_LINES
    assert f"python examples/{name}" in text
