"""The `nats` tool prints the same with headrace as with nats-server. Skipped where it is not installed.

Only what differs between any two runs is made equal: times, durations, sizes of processes, ids, ports.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Server, ServerKind, running_server

TOOL = shutil.which("nats")
SECONDS = 60

pytestmark = pytest.mark.skipif(TOOL is None, reason="the nats tool is not installed")

CONFIG = """
server_name: mill
jetstream {{ store_dir: "{store}" }}
accounts {{
  SYS {{ users: [{{user: sys, password: sys}}] }}
  APP {{ jetstream: enabled, users: [{{user: app, password: app}}] }}
}}
system_account: SYS
"""

SUBSTITUTIONS = [
    (r"\b[A-Z0-9]{56}\b", "ID"),
    (r"\b[A-Za-z0-9]{22}\b", "ID"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC)?", "TIME"),
    (r"\b\d\d:\d\d:\d\d\b", "TIME"),
    (r"\d+(\.\d+)?(d|h|m|s|ms|µs|ns)(\d+(\.\d+)?(m|s|ms))*\b", "DURATION"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\b(Client ID|cid|CID):? *\d+", "CLIENT"),
    (r"NATS-RPLY-\d+", "GROUP"),
    (r"[\d.]+ [KMG]i?B compressed|\d+ B compressed", "SIZE compressed"),
    (r"[─│╭╮╰╯├┤┬┴┼═╞╡╪]", " "),
]

STREAMS = """
stream add ORDERS --subjects orders.> --defaults
stream add JOBS --subjects jobs --retention work --storage memory --max-msgs 100 --discard new --defaults
pub orders.eu hello --count 5
pub orders.us {"a":1} -H X:y
pub jobs one -J
stream ls
stream ls -n
stream info ORDERS
stream info ORDERS --json
stream subjects ORDERS
stream state ORDERS
stream report
stream get ORDERS 2
stream get ORDERS --last-for orders.us
stream edit ORDERS --max-msgs 10 --force
stream copy ORDERS COPY --subjects c.>
stream find --empty
stream rmm ORDERS 1 --force
stream gaps ORDERS --force
stream seal COPY --force
consumer add ORDERS pull --pull --defaults
consumer add ORDERS push --target deliver.me --deliver all --ack none --replay instant --defaults
consumer ls ORDERS
consumer info ORDERS pull
consumer next ORDERS pull --count 2
consumer next ORDERS pull --no-ack
consumer pause ORDERS pull 1h --force
consumer resume ORDERS pull --force
consumer edit ORDERS pull --max-deliver 5 --force
consumer reset ORDERS pull --force
consumer report ORDERS
server check stream --stream ORDERS
server check consumer --stream ORDERS --consumer pull
stream purge ORDERS --keep 3 --force
stream info NOTHING
account info
account backup {directory} --consumers --force
stream rm ORDERS --force
stream rm COPY --force
account restore {directory}
consumer rm ORDERS push --force
stream ls
sub --stream ORDERS --all --count 2
"""

BUCKETS = """
kv add config --history 5 --ttl 1h
kv put config a.b 1
kv put config a.b 2
kv put config c 3
kv get config a.b
kv get config a.b --raw
kv get config nothing
kv ls
kv ls config --display-value
kv history config a.b
kv create config c 9
kv update config c 4 3
kv update config c 4 99
kv del config a.b --force
kv history config a.b
kv purge config c --force
kv info config
kv compact config --force
kv rm config --force
object add box
object put box {file} --name f.txt --force --no-progress
object ls box
object ls
object info box f.txt
object get box f.txt --force -O /dev/null --no-progress
object del box f.txt --force
object seal box --force
object rm nothing --force
object rm box --force
"""

SERVERS = """
server ping --count 1
server report jetstream
server report health
server check server --name mill --connections-warn 100
server request kick 999999 mill
"""

ACCOUNTS = """
server check connection
server check jetstream
rtt
service ls
errors ls
trace nobody.at.all
"""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Server]]:
    kinds: tuple[ServerKind, ...] = ("headrace", "nats-server")
    configs = [CONFIG.format(store=tmp_path / kind) for kind in kinds]
    with running_server(kinds[0], configs[0]) as ours, running_server(kinds[1], configs[1]) as real:
        yield [ours, real]


def run(server: Server, user: str, arguments: list[str], home: Path) -> str:
    """What it prints, and its exit code."""
    assert TOOL is not None
    given = ["-s", f"nats://{server.host}:{server.port}", "--user", user, "--password", user]
    done = subprocess.run(
        [TOOL, *given, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, "HOME": str(home), "COLUMNS": "150"},
    )
    text = done.stdout + done.stderr
    for pattern, replacement in SUBSTITUTIONS:
        text = re.sub(pattern, replacement, text)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return "\n".join([line for line in lines if line] + [f"exit code {done.returncode}"])


def compare(servers: list[Server], user: str, commands: str, tmp_path: Path) -> list[str]:
    """The commands whose outputs differ, with both."""
    file = tmp_path / "file.txt"
    file.write_text("hello\n")
    differences = []
    for line in commands.strip().splitlines():
        printed = []
        for server in servers:
            directory = tmp_path / f"backup-{server.kind}"
            places = {"{directory}": str(directory), "{file}": str(file)}
            arguments = [places.get(word, word) for word in line.split()]
            printed.append(run(server, user, arguments, tmp_path).replace(str(directory), "DIRECTORY"))
        if printed[0] != printed[1]:
            differences.append("\n".join([f"$ nats {line}", *printed]))
    return differences


@pytest.mark.parametrize(
    ("user", "commands"),
    [("app", STREAMS), ("app", BUCKETS), ("app", ACCOUNTS), ("sys", SERVERS)],
    ids=["streams", "buckets", "accounts", "servers"],
)
def test_the_nats_tool_prints_the_same(
    servers: list[Server], user: str, commands: str, tmp_path: Path
) -> None:
    assert compare(servers, user, commands, tmp_path) == []
