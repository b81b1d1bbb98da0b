"""What is wrong between accounts is refused by `-t` as nats-server refuses it: same place, same words."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from headrace.config import ConfigFileError, load_file
from tests.accounts.config_errors import MISTAKES
from tests.servers import server_command

# Go names the types of values in its own way; the rest of such a line is compared.
KINDS = re.compile(r", got .*")
# nats-server reads the fields of a map in random order, and then has one error or another.
UNSTABLE = {"stream_and_service", "user_and_accounts"}
# nats-server points at the end of such an entry, or at any of two accounts.
ELSEWHERE = {"service_twice", "mapping_without_weight", "duplicate_user"}
PLACE = re.compile(r":\d+:\d+: ")


def reference_errors(path: Path) -> list[str]:
    command = [*server_command("nats-server"), "-t", "-c", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0, f"nats-server accepts it:\n{path.read_text()}"
    lines = done.stderr.removeprefix("nats-server: ").strip().split("\n")
    return sorted(KINDS.sub("", line.replace(str(path), "FILE").strip()) for line in lines)


def our_errors(path: Path) -> list[str]:
    with pytest.raises(ConfigFileError) as caught:
        load_file(str(path))
    lines = str(caught.value).split("\n")
    return sorted(KINDS.sub("", line.replace(str(path), "FILE").strip()) for line in lines)


@pytest.mark.parametrize("name", MISTAKES)
def test_the_error_is_that_of_nats_server(name: str, tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    path.write_text(MISTAKES[name])
    reference, ours = reference_errors(path), our_errors(path)
    if name in ELSEWHERE:
        assert [PLACE.sub(":", line) for line in ours] == [PLACE.sub(":", line) for line in reference]
    elif name in UNSTABLE:
        assert len(reference) == len(ours)
    else:
        assert ours == reference
