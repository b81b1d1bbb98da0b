"""The documents tell the truth: options are documented, links lead somewhere, README commands do as shown."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from headrace.bench.suites import SUITES
from headrace.cli.command import headrace
from tests import forks
from tests.cli.commands import COMMAND, SECONDS, environment
from tests.servers import Process, running_server

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def all_commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """By what is typed. A hidden command of a group is what the group does without a command's name."""
    for name, command in sorted(group.commands.items()):
        typed = prefix.strip() if command.hidden else f"{prefix}{name}"
        if isinstance(command, click.Group):
            yield from all_commands(command, f"{typed} ")
        else:
            yield typed, command


COMMANDS = list(all_commands(headrace))
SHARED = ("## Connecting", "## Checks for monitoring systems")
"""Sections of docs/commands*.md about options that many commands have."""


def section(text: str, heading: str) -> str:
    """The text under a heading, up to the next heading of the same level."""
    level = heading.partition(" ")[0]
    _, found, rest = f"\n{text}".partition(f"\n{heading}\n")
    assert found, f"there is no {heading!r}"
    return re.split(rf"^{level} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


# docs/commands.md has the fields of a configuration once, for the commands that create, change and copy.
SHARED += ("## The configuration of a stream", "## The configuration of a consumer")


def options_of(command: click.Command) -> Iterator[click.Option]:
    for parameter in command.get_params(click.Context(command)):
        if isinstance(parameter, click.Option):
            yield parameter


def pages_of(name: str) -> tuple[str, str]:
    """The section of a command, and what its page says about the options of several commands."""
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text()
        if f"\n## headrace {name}\n" in text:
            shared = [heading for heading in SHARED if f"\n{heading}\n" in text]
            return section(text, f"## headrace {name}"), "".join(section(text, title) for title in shared)
    raise AssertionError(f"no page has a section about headrace {name}")


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_every_option_is_documented(name: str, command: click.Command) -> None:
    documented = "".join(pages_of(name))
    names = {option for parameter in options_of(command) for option in parameter.opts} | {"-h", "--help"}
    variables = {parameter.envvar for parameter in options_of(command) if isinstance(parameter.envvar, str)}
    assert [name for name in sorted(names | variables) if f"`{name}`" not in documented] == []


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_only_options_that_exist_are_documented(name: str, command: click.Command) -> None:
    documented, _ = pages_of(name)
    options = [
        option for parameter in options_of(command) for option in parameter.opts + parameter.secondary_opts
    ]
    names = {*options, "-h", "--help"}
    mentioned = set(re.findall(r"`(--?[a-zA-Z][\w-]*)`", documented))
    assert mentioned <= names


def test_the_options_of_the_command_itself_are_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    assert all(f"`{name}`" in text for option in options_of(headrace) for name in option.opts)


def test_every_row_of_the_benchmark_is_documented() -> None:
    documented = section((ROOT / "docs" / "cli.md").read_text(), "## headrace bench compare")
    rows = {row.key for suite in SUITES.values() for row in suite}
    (listed,) = re.findall(r"^\| `--rows` KEY,... \| (.+) \|$", documented, flags=re.MULTILINE)
    assert set(re.findall(r"`([\w-]+)`", listed)) == rows
    assert all(f"`{suite}`" in documented for suite in SUITES)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        assert (document.parent / path).exists(), f"{document.name}: {target}"
        if anchor and not path:
            headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}


def test_paths_in_the_architecture_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    package = ROOT / "src" / "headrace"
    paths = re.findall(r"`((?:\w+/)+\w+\.\w+|\w+\.py)`", text)
    assert len(paths) > 15
    for path in paths:
        places = (ROOT / path, package / path, package / "config" / path, package / "streams" / path)
        assert any(place.exists() for place in places), path


@pytest.mark.parametrize(
    "flow", ["one connection", "one message", "one message of a stream", "one Spark micro-batch"]
)
def test_a_flow_visits_no_file_twice(flow: str) -> None:
    steps = section((ROOT / "ARCHITECTURE.md").read_text(), f"## Flow: {flow}")
    visited = re.findall(r"^\d+\. `(\S+)`:", steps, flags=re.MULTILINE)
    assert len(visited) > 5
    assert sorted(set(visited)) == sorted(visited)
    assert re.findall(r"^(\d+)\.", steps, flags=re.MULTILINE) == [str(1 + k) for k in range(len(visited))]


KINDS = ("Tutorial", "How-to", "Reference", "Explanation")


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_every_page_is_in_the_index_and_says_what_kind_it_is(page: Path) -> None:
    if page.name == "README.md":
        assert all(f"\n## {kind}: " in page.read_text() for kind in KINDS)
        return
    assert f"]({page.name}" in (ROOT / "docs" / "README.md").read_text()
    assert re.search(rf"\A# .+\n\n\*({'|'.join(KINDS)})\b", page.read_text())


# The quick start of the README


class Terminal:
    """A command of the README, in the background; stdout and stderr go to one file, as on a screen."""

    def __init__(self, command: list[str], path: Path, variables: dict[str, str]) -> None:
        self._path = path
        self.process: Process
        surroundings = environment(**variables)
        with path.open("wb") as screen, Path(os.devnull).open("rb") as nothing:
            if command[: len(COMMAND)] == COMMAND and forks.can_fork(surroundings):
                arguments = command[len(COMMAND) :]
                streams = (nothing, screen, screen)
                self.process = forks.fork(forks.COMMAND, arguments, surroundings, streams, path.parent)
            else:
                self.process = subprocess.Popen(
                    command, stdin=nothing, stdout=screen, stderr=screen, env=surroundings, cwd=path.parent
                )

    @property
    def screen(self) -> str:
        return self._path.read_text()

    def wait_for(self, part: str) -> None:
        deadline = time.monotonic() + SECONDS
        while part not in self.screen:
            assert self.process.poll() is None, self.screen
            assert time.monotonic() < deadline, self.screen
            time.sleep(0.01)

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(SECONDS) == 0, self.screen


def code_blocks() -> list[tuple[str, str]]:
    """Language and content of the blocks in the quick start that are meant to be run."""
    text = section((ROOT / "README.md").read_text(), "## Quick start")
    return re.findall(r"^```(console|python)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def split_session(block: str) -> list[tuple[str, str]]:
    """Commands of a block, each with what is shown under it. The ^C is shown by the terminal."""
    parts = re.split(r"^\$ (.+)\n", block.replace("^C\n", ""), flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def test_the_quick_start_shows_what_happens(tmp_path: Path) -> None:
    follow_the_quick_start(tmp_path, sys.executable)


def follow_the_quick_start(tmp_path: Path, python: str) -> None:
    """Word for word, but for the port: 4222 may be in use on the machine that runs the tests."""
    url = ""
    expected: list[tuple[Terminal, str]] = []
    ran = []
    with contextlib.ExitStack() as stack:

        def start(command: list[str], variables: dict[str, str]) -> Terminal:
            terminal = Terminal(command, tmp_path / f"screen-{len(list(tmp_path.iterdir()))}", variables)
            stack.callback(terminal.process.wait)
            stack.callback(terminal.process.kill)
            return terminal

        for language, block in code_blocks():
            if language == "python":
                script = block.replace("nats.connect()", f"nats.connect({url!r})")
                assert script != block
                start([python, "-c", script], {}).wait_for("ready")
                continue
            for line, shown in split_session(block):
                program, name, *arguments = shlex.split(line)
                assert program == "headrace"
                command = [python, "-m", "headrace", name, *arguments]
                ran.append(name)
                if name == "serve":
                    terminal = start([*command, "-p", "-1"], {})
                    terminal.wait_for("Ctrl-C stops")
                    url = re.findall(r"nats://[\d.:]+", terminal.screen)[0]
                    expected.append((terminal, shown))
                elif name == "sub":
                    terminal = start(command, {"NATS_URL": url})
                    terminal.wait_for("subscribed")
                    expected.append((terminal, shown))
                else:
                    screen = tmp_path / "foreground"
                    foreground = Terminal(command, screen, {"NATS_URL": url})
                    assert foreground.process.wait(SECONDS) == 0
                    assert foreground.screen.removesuffix("\n") == shown.removesuffix(
                        "\n"
                    )  # --raw has no line end
                    screen.unlink()
        for terminal, shown in reversed(expected):
            if shown.startswith("headrace: subscribed"):
                terminal.wait_for(shown.splitlines()[-2])
            terminal.end()
            screen = terminal.screen.replace(f" -s {url}", "").replace(url.rpartition(":")[2], "4222")
            screen = re.sub(r"http://127\.0\.0\.1:\d+/", "http://127.0.0.1:8222/", screen)  # or another
            assert screen == shown
    assert ran == ["serve", "sub", "pub", "pub", "request"]


def test_the_streams_of_the_readme_print_what_it_says(tmp_path: Path) -> None:
    text = section((ROOT / "README.md").read_text(), "## Streams")
    (script,) = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    (shown,) = re.findall(r"^prints\n\n```\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    with running_server("headrace", flags=["-js", "-sd", str(tmp_path)]) as server:
        script = script.replace("nats.connect()", f"nats.connect('nats://{server.host}:{server.port}')")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=SECONDS)
    assert (done.stdout, done.stderr) == (shown, "")


def test_documents_name_no_machine() -> None:
    for document in DOCUMENTS:
        text = document.read_text()
        assert os.path.expanduser("~/") not in text
        assert str(ROOT) not in text
