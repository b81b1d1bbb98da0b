"""The command line of the drop-in executable."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace import __version__
from headrace.config import (
    CommandLine,
    FlagError,
    load_options,
    parse_command_line,
    send_signal,
    usage,
    version_line,
)
from headrace.config.flags import FLAGS, FlagValue
from headrace.config.options import Options
from headrace.config.unsupported import UNSUPPORTED_FLAGS
from headrace.errors import UsageError

CHANGES: list[tuple[list[str], dict[str, FlagValue]]] = [
    ([], {}),
    (["-p", "1"], {"port": 1}),
    (["-p=1"], {"port": 1}),
    (["--p", "1"], {"port": 1}),
    (["--port=1", "-p", "2"], {"port": 2}),
    (["-p", "2", "--port=1"], {"port": 1}),
    (["-p", "-1"], {"port": -1}),
    (["-p", "0x1f"], {"port": 31}),
    (["-p", "1_000"], {"port": 1000}),
    (["-a", "x"], {"host": "x"}),
    (["--addr", "x"], {"host": "x"}),
    (["--net", "x"], {"host": "x"}),
    (["-n", "x"], {"server_name": "x"}),
    (["--name", "x"], {"server_name": "x"}),
    (["--server_name=x=y"], {"server_name": "x=y"}),
    (["-m", "8222"], {"http_port": 8222}),
    (["-D", "-V"], {"debug": True, "trace": True}),
    (["-DV"], {"debug": True, "trace": True}),
    (["-DV=false", "-D"], {"debug": False, "trace": False}),
    (["-DVV"], {"debug": True, "trace": True, "trace_verbose": True}),
    (["-T=false"], {"logtime": False}),
    (["--user", "-x", "--pass", "--y"], {"username": "-x", "password": "--y"}),
    (["-sd=/tmp/x"], {"store_dir": "/tmp/x"}),
    (["-js", "--store_dir", "x"], {"jetstream": True, "store_dir": "x"}),
    (["--jetstream=false"], {"jetstream": False}),
    (["--no_advertise=false", "--tls=false", "--cluster", "", "-P", "x"], {"pid_file": "x"}),
    (["--"], {}),
]


@pytest.mark.parametrize(("arguments", "changes"), CHANGES)
def test_flags_set_options(arguments: list[str], changes: dict[str, FlagValue]) -> None:
    command = parse_command_line(arguments)
    assert (command.action, command.changes) == ("serve", changes)
    load_options(command)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-v"], CommandLine("version")),
        (["-js", "--version"], CommandLine("version")),
        (["version"], CommandLine("version")),
        (["-v", "stray"], CommandLine("version")),
        (["-h"], CommandLine("help")),
        (["-p", "1", "HELP"], CommandLine("help")),
        (["-t", "-c", "x"], CommandLine("check", "x")),
        (["-t=false", "-c", "x"], CommandLine("serve", "x")),
        (["-sl", "stop=1"], CommandLine("signal", signal="stop=1")),
    ],
)
def test_what_is_asked_for(arguments: list[str], expected: CommandLine) -> None:
    assert parse_command_line(arguments) == expected


@pytest.mark.parametrize(
    "arguments", [["-x"], ["-p", "x"], ["-p"], ["-D=x"], ["---p"], ["-=p"], ["-p", "8" * 5000]]
)
def test_a_wrong_flag_is_a_flag_error(arguments: list[str]) -> None:
    with pytest.raises(FlagError):
        parse_command_line(arguments)


@pytest.mark.parametrize("name", sorted(UNSUPPORTED_FLAGS))
def test_a_flag_that_is_not_supported_yet_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"does not support .* yet") as caught:
        parse_command_line([f"--{name}=1"])
    assert not isinstance(caught.value, FlagError)


def test_every_flag_sets_an_option_of_its_type() -> None:
    for flag in FLAGS:
        if flag.option:
            assert isinstance(getattr(Options(), flag.option), flag.kind)


def test_usage_names_every_flag() -> None:
    words = usage().replace(",", " ").split()
    for flag in FLAGS:
        for name in flag.names:
            assert f"-{name}" in words or f"--{name}" in words


def test_the_version_line_has_the_shape_that_scripts_read() -> None:
    assert version_line() == f"nats-server: v2.15.1 (headrace {__version__})"


@pytest.fixture
def process() -> Any:
    script = (
        "import signal, sys, time\n"
        "for s in (signal.SIGUSR1, signal.SIGHUP): signal.signal(s, lambda n, f: sys.exit(n))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.05)"  # a signal that comes just before a pause would not end it
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_signal_reaches_a_process_by_its_id(process: subprocess.Popen[bytes]) -> None:
    send_signal(f"reload={process.pid}")
    assert process.wait(30) == signal.SIGHUP


def test_a_signal_reaches_a_process_by_its_pid_file(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(str(process.pid))
    send_signal(f"reopen={tmp_path / 'pid'}")
    assert process.wait(30) == signal.SIGUSR1


@pytest.mark.parametrize(
    "expression",
    [
        "stop",
        "bogus=1",
        "stop=abc",
        "stop=1=2",
        "reload=999999999",
        "stop=0",
        "stop=-1",
        f"stop={os.sep}none",
        "stop=",
    ],
)
def test_a_signal_that_cannot_be_sent_is_a_usage_error(expression: str) -> None:
    with pytest.raises(UsageError):
        send_signal(expression)
