"""docs/security.md as a newcomer follows it: every command and configuration of its steps, for real.

Only the port differs: 4222 may be in use on the machine that runs the tests.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.cli.commands import COMMAND, SECONDS, environment
from tests.test_docs import ROOT, Terminal, section, split_session

PAGE = (ROOT / "docs" / "security.md").read_text()
STEPS = section(PAGE, "## From loopback to a shared server")
ROTATING = section(PAGE, "## Rotating certificates and keys")
HEADINGS = re.findall(r"^### .+$", STEPS, flags=re.MULTILINE)
DEFAULT_PORT = "4222"


class Newcomer:
    """Types what the page says, in one directory, and compares what is printed."""

    def __init__(self, directory: Path, stack: contextlib.ExitStack) -> None:
        self.directory = directory
        self.port = DEFAULT_PORT
        self.ran: list[str] = []
        self.server: Terminal | None = None
        self._stack = stack
        self._waiting: list[tuple[Terminal, str]] = []

    def follow(self, text: str) -> None:
        """Write the files and run the sessions, in the order of the text."""
        for name, language, block in re.findall(
            r"(?:^`([\w.]+)`[^\n]*:[^\n]*\n\n)?^```(console)?\n(.*?)^```",
            text,
            flags=re.DOTALL | re.MULTILINE,
        ):
            if language:
                for line, shown in split_session(block):
                    self.type(line, shown)
            else:
                assert name, f"a file without a name: {block}"
                (self.directory / name).write_text(block)
        for terminal, shown in self._waiting:
            assert terminal.process.wait(SECONDS) == 0
            assert self._as_documented(terminal.screen) == shown

    def type(self, line: str, shown: str) -> None:
        words = shlex.split(line.replace(DEFAULT_PORT, self.port))
        variables = {"NATS_URL": f"nats://127.0.0.1:{self.port}"}
        while "=" in words[0]:
            variables |= dict([words.pop(0).split("=", 1)])
        assert words[0] == "headrace", line
        self.ran.append(words[1])
        command = [*COMMAND, *words[1:]]
        if words[1] == "serve":
            self._serve(command, shown)
        elif "Ctrl-C stops" in shown:
            terminal = self._start(command, variables)
            terminal.wait_for("subscribed")
            self._waiting.append((terminal, shown))
        else:
            terminal = self._start(command, variables)
            is_refused = shown.startswith("headrace: ")
            assert terminal.process.wait(SECONDS) == (1 if is_refused else 0), terminal.screen
            if shown:
                assert self._as_documented(terminal.screen) == shown

    def run_in_shell(self, heading: str) -> None:
        """The commands of a part of "Rotating certificates and keys"."""
        for block in re.findall(
            r"^```console\n(.*?)^```", section(ROTATING, heading), flags=re.DOTALL | re.M
        ):
            for line, _ in split_session(block):
                line = line.replace(DEFAULT_PORT, self.port).replace(
                    "headrace auth", f"{shlex.join(COMMAND)} auth"
                )
                subprocess.run(
                    ["sh", "-c", line], cwd=self.directory, env=environment(), check=True, timeout=SECONDS
                )

    def _serve(self, command: list[str], shown: str) -> None:
        terminal = self.server = self._start([*command, "-p", "-1"], {})
        terminal.wait_for("Ctrl-C stops")
        (self.port,) = set(re.findall(r"listening on \w+://[\d.]+:(\d+)", terminal.screen))
        screen = self._as_documented(terminal.screen).splitlines()
        assert [line for line in shown.splitlines() if line not in screen] == []

    def _start(self, command: list[str], variables: dict[str, str]) -> Terminal:
        terminal = Terminal(command, self.directory / f"screen-{len(self.ran)}", variables)
        self._stack.callback(terminal.process.wait, SECONDS)
        self._stack.callback(terminal.process.kill)
        return terminal

    def _as_documented(self, screen: str) -> str:
        return screen.replace(self.port, DEFAULT_PORT)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What step 2 makes, for the steps after it."""
    directory = tmp_path_factory.mktemp("step-2")
    with contextlib.ExitStack() as stack:
        Newcomer(directory, stack).follow(section(STEPS, "### 2. TLS"))
    return directory / "certs"


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    with contextlib.ExitStack() as stack:
        yield Newcomer(tmp_path, stack)


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_step_shows_what_happens(heading: str, newcomer: Newcomer, certificates: Path) -> None:
    if "TLS" not in heading:
        shutil.copytree(certificates, newcomer.directory / "certs")
    newcomer.follow(section(STEPS, heading))
    assert {"serve", "pub"} <= set(newcomer.ran)


def test_there_are_five_steps() -> None:
    assert [heading.split()[1] for heading in HEADINGS] == ["1.", "2.", "3.", "4.", "5."]


PUBLISH = "headrace pub greet.x hi --server tls://localhost:4222"
PUBLISHED = "Published 1 message to greet.x (2 bytes)\n"
UNTRUSTED = "headrace: the certificate of the server at localhost:4222 cannot be trusted: "


def outcome(newcomer: Newcomer, arguments: str) -> str:
    words = shlex.split(f"{PUBLISH} {arguments}".replace(DEFAULT_PORT, newcomer.port))
    terminal = Terminal([*COMMAND, *words[1:]], newcomer.directory / "screen", {})
    terminal.process.wait(SECONDS)
    return terminal.screen.replace(newcomer.port, DEFAULT_PORT)


def test_the_certificate_and_its_authority_are_rotated(newcomer: Newcomer, certificates: Path) -> None:
    shutil.copytree(certificates, newcomer.directory / "certs")
    (newcomer.directory / "new").mkdir()
    Authority(newcomer.directory / "new", "ca").issue("server")
    newcomer.follow(section(STEPS, "### 4. An account per team"))
    newcomer.run_in_shell("### The CA")
    anna = "--user anna --password apple --tls-ca"
    assert outcome(newcomer, f"{anna} certs/ca.pem") == PUBLISHED
    assert outcome(newcomer, f"{anna} both.pem") == PUBLISHED
    assert outcome(newcomer, f"{anna} new/ca.pem").startswith(UNTRUSTED)
    newcomer.run_in_shell("### The server's certificate")
    assert newcomer.server is not None
    newcomer.server.wait_for("Reloaded")
    assert outcome(newcomer, f"{anna} both.pem") == PUBLISHED
    assert outcome(newcomer, f"{anna} new/ca.pem") == PUBLISHED
    assert outcome(newcomer, f"{anna} certs/ca.pem").startswith(UNTRUSTED)


def test_the_credentials_of_a_user_are_rotated(newcomer: Newcomer, certificates: Path) -> None:
    shutil.copytree(certificates, newcomer.directory / "certs")
    newcomer.follow(section(STEPS, "### 5. Operator mode, for other machines"))
    old = newcomer.directory / "old.creds"
    shutil.copy(newcomer.directory / "nats/creds/APP/bert.creds", old)
    assert outcome(newcomer, f"--tls-ca certs/ca.pem --creds {old}") == PUBLISHED
    newcomer.run_in_shell("### A user's credentials")
    assert "does not accept these credentials" in outcome(newcomer, f"--tls-ca certs/ca.pem --creds {old}")
    assert outcome(newcomer, "--tls-ca certs/ca.pem --creds nats/creds/APP/bert.creds") == PUBLISHED
    assert outcome(newcomer, "--tls-ca certs/ca.pem --creds nats/creds/APP/app.creds") == PUBLISHED
