"""deploy/ and docs/deploy.md: files that belong together say the same."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from headrace import Server
from headrace.config.load import load_file
from headrace.config.options import check_options

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()
TEXT = (ROOT / "docs" / "deploy.md").read_text()


def instruction(name: str) -> str:
    """The last of that name."""
    joined = CONTAINERFILE.replace("\\\n", " ")
    return str(re.findall(rf"^{name} (.*)$", joined, flags=re.MULTILINE)[-1])


def test_the_configuration_to_start_from_is_valid() -> None:
    loaded = load_file(str(DEPLOY / "server.conf"))
    check_options(loaded.options)
    assert loaded.warnings == ()
    unit = (DEPLOY / "headrace.service").read_text()
    assert loaded.options.store_dir == "/var/lib/headrace"
    assert "StateDirectory=headrace\n" in unit
    assert "/etc/headrace/server.conf" in unit


def test_the_container_is_not_root_and_copies_what_exists() -> None:
    assert instruction("USER").split(":")[0] == "10001"
    for line in re.findall(r"^COPY (.+) \S+$", CONTAINERFILE, flags=re.MULTILINE):
        for name in line.split():
            assert (ROOT / name).exists(), name


def test_the_health_check_of_the_container_succeeds_and_fails() -> None:
    """As Python runs it, with the port of a server here."""
    (script,) = re.findall(r'"(import urllib.*?)"', instruction("HEALTHCHECK"))
    with Server(monitor_port=-1) as server:
        here = script.replace("http://127.0.0.1:8222", server.monitor_url)
        assert here != script
        exec(here, {})
    try:
        exec(here, {})
    except OSError:
        return
    raise AssertionError("the server is gone")


def test_the_compose_file_names_files_that_exist() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yml").read_text())
    services = compose["services"]
    assert (DEPLOY / services["headrace"]["build"]["context"] / "deploy" / "Containerfile").exists()
    mounted = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", ())]
    for path in mounted:
        assert path in compose["volumes"] or path.startswith("./"), path
    assert (DEPLOY / "grafana-provisioning").is_dir()
    seconds = int(services["headrace"]["stop_grace_period"].removesuffix("s"))
    assert f"TimeoutStopSec={seconds}\n" in (DEPLOY / "headrace.service").read_text()
    for path in (DEPLOY / "grafana-provisioning").rglob("*.yml"):
        assert yaml.safe_load(path.read_text())["apiVersion"] == 1


def test_the_page_names_what_the_files_have() -> None:
    unit = (DEPLOY / "headrace.service").read_text()
    for line in re.findall(r"`((?:WatchdogSec|Restart|Type)=\S+?)`", TEXT):
        assert f"\n{line}\n" in unit
    (limit,) = re.findall(r"LimitNOFILE=(\d+)", unit)
    assert f"the unit sets {int(limit):,}" in TEXT
