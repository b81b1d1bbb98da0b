"""The dashboard, the alerts and the table of metrics speak of what a scrape has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.core import Metric

from headrace.monitor.metrics.families import Family
from tests.monitor.conftest import Connecter, Starter
from tests.monitor.fetch import fetch
from tests.monitor.metrics.scrape import populated, scrape

ROOT = Path(__file__).parents[3]
DASHBOARD = json.loads((ROOT / "deploy/grafana/headrace.json").read_text())
ALERTS = ROOT / "deploy/prometheus/alerts.yml"
CASES = ROOT / "deploy/prometheus/alerts_test.yml"
CONFIGURATION = ROOT / "deploy/prometheus/prometheus.yml"
MANUAL = ROOT / "docs/metrics.md"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

# What Prometheus adds to everything that it scrapes.
ADDED_LABELS = {"instance", "job"}
SELECTOR = re.compile(r"\b((?:headrace|process)_\w+|up)\b\s*(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left)\s*\(([^)]*)\)")

Series = dict[str, list[dict[str, str]]]
"""The labels of all series, by their names."""


def expressions() -> Iterator[tuple[str, str]]:
    """Where each is, and the expression."""
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["definition"]


def series_of(families: list[Metric]) -> Series:
    found: Series = {"up": [{}]}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


def problems(expression: str, scraped: Series) -> Iterator[str]:
    """Names, labels and values of labels that do not exist."""
    assert expression.count("(") == expression.count(")")
    names = set(ADDED_LABELS)
    for name, matchers in SELECTOR.findall(expression):
        if name not in scraped:
            yield f"there is no {name}"
            continue
        labels = {label for each in scraped[name] for label in each} | ADDED_LABELS
        names |= labels
        for label, operator, value in MATCHER.findall(matchers):
            if label not in labels:
                yield f"{name} has no label {label}"
            elif operator == "=" and value not in known_values(label, scraped[name]):
                yield f"no {name} has {label}={value}"
    for grouped in GROUPING.findall(expression):
        yield from (
            f"nothing has the label {label}" for label in re.findall(r"\w+", grouped) if label not in names
        )


def known_values(label: str, series: list[dict[str, str]]) -> set[str]:
    return {"headrace"} if label in ADDED_LABELS else {each[label] for each in series if label in each}


async def test_dashboard_and_alerts_use_what_a_scrape_has(
    start: Starter, connect: Connecter, tmp_path: Path
) -> None:
    server, _ = await populated(start, connect, tmp_path)
    scraped = series_of(await scrape(server.monitor.port))
    found = {
        (where, problem) for where, expression in expressions() for problem in problems(expression, scraped)
    }
    assert found == set()
    for rule in RULES:
        selected = [name for name, _ in SELECTOR.findall(rule["expr"])]
        labels = ADDED_LABELS | {label for name in selected for each in scraped[name] for label in each}
        texts = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", texts)) <= labels, rule["alert"]
    for panel in PANELS:
        for target in panel["targets"]:
            labels = {
                label
                for name, _ in SELECTOR.findall(target["expr"])
                for each in scraped[name]
                for label in each
            }
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels | ADDED_LABELS


def test_what_does_not_exist_is_found() -> None:
    """The test of the test."""
    scraped: Series = {"headrace_x": [{"state": "on"}]}
    assert list(problems('sum by (instance) (headrace_x{state="on"})', scraped)) == []
    assert list(problems("rate(headrace_y[5m])", scraped)) == ["there is no headrace_y"]
    assert list(problems('headrace_x{stat="on"}', scraped)) == ["headrace_x has no label stat"]
    assert list(problems('headrace_x{state="off"}', scraped)) == ["no headrace_x has state=off"]
    assert list(problems("sum by (queue) (headrace_x)", scraped)) == ["nothing has the label queue"]


def test_alert_rules_are_well_formed() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names) >= 14
    for rule in RULES:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"Headrace[A-Za-z]+", rule["alert"])
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        for text in rule["annotations"].values():
            assert text.count("{{") == text.count("}}")
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    assert [set(group) for group in groups] == [{"name", "rules"}] * len(groups)
    configuration = yaml.safe_load(CONFIGURATION.read_text())
    assert configuration["rule_files"] == [ALERTS.name]
    assert configuration["scrape_configs"][0]["job_name"] == "headrace"


async def test_the_cases_of_the_alerts_speak_of_what_exists(
    start: Starter, connect: Connecter, tmp_path: Path
) -> None:
    """What makes them fire is checked by promtool below; that these series exist is checked here."""
    server, _ = await populated(start, connect, tmp_path)
    scraped = series_of(await scrape(server.monitor.port))
    document = yaml.safe_load(CASES.read_text())
    assert document["rule_files"] == [ALERTS.name]
    names = {rule["alert"] for rule in RULES}
    fired = set()
    for case in document["tests"]:
        for series in case["input_series"]:
            name, _, labels = series["series"].partition("{")
            assert name in scraped, name
            known = {label for each in scraped[name] for label in each} | ADDED_LABELS
            assert {label for label, _, _ in MATCHER.findall(labels)} <= known, series
        for check in case["alert_rule_test"]:
            assert check["alertname"] in names
            fired |= {check["alertname"]} if check.get("exp_alerts") else set()
    assert len(fired) >= 7


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
async def test_promtool_agrees(start: Starter, connect: Connecter, tmp_path: Path) -> None:
    subprocess.run(["promtool", "check", "rules", ALERTS], check=True)
    subprocess.run(["promtool", "test", "rules", CASES], check=True)
    subprocess.run(["promtool", "check", "config", CONFIGURATION], check=True)
    server, _ = await populated(start, connect, tmp_path)
    page = (await fetch(server.monitor.port, "/metrics")).body
    subprocess.run(["promtool", "check", "metrics"], input=page, check=True)


def test_the_dashboard_is_well_formed() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(DASHBOARD)))
    assert used <= variables
    for panel in PANELS:
        assert panel["title"]
        assert panel["targets"]
        assert panel["datasource"]["uid"] == "${datasource}"
    for one, other in combinations(DASHBOARD["panels"], 2):
        assert not overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(
        one[place] < other[place] + other[size] and other[place] < one[place] + one[size]
        for place, size in (("x", "w"), ("y", "h"))
    )


# -- the manual


def documented() -> dict[str, tuple[str, set[str], str]]:
    """By the name of a metric: its type, labels and meaning."""
    found: dict[str, tuple[str, set[str], str]] = {}
    for line in MANUAL.read_text().splitlines():
        if row := re.fullmatch(r"\| `(\w+)`(?: \(([^)]*)\))? \| (\w+) \| (.+) \|", line):
            found[row[1]] = row[3], set(re.findall(r"\w+", row[2] or "")), row[4]
    return found


async def test_the_manual_lists_every_metric(start: Starter, connect: Connecter, tmp_path: Path) -> None:
    server, _ = await populated(start, connect, tmp_path)
    found: dict[str, tuple[str, set[str], str]] = {}
    for family in await scrape(server.monitor.port, accept="application/openmetrics-text"):
        name = Family(family.name, "", family.type).sample
        labels: set[Any] = {label for sample in family.samples for label in sample.labels} - {"le"}
        found[name] = family.type, labels, family.documentation
    assert documented() == found
    assert list(documented()) == list(found)  # in the order of a page


async def test_the_example_of_the_manual_is_what_a_page_has(start: Starter, connect: Connecter) -> None:
    server = await start()
    for _ in range(3):
        await connect(server.broker.port)
    page = (await fetch(server.monitor.port, "/metrics")).text
    example = MANUAL.read_text().partition("grep connections\n")[2].partition("    ...")[0]
    expected = [line.strip() for line in example.splitlines()]
    assert expected == [line for line in page.splitlines() if "connections" in line][: len(expected)]


def test_the_configurations_of_the_manual_are_valid() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    assert len(blocks) == 2
    jobs = [yaml.safe_load(block)["scrape_configs"][0] for block in blocks]
    assert jobs[0] == yaml.safe_load(CONFIGURATION.read_text())["scrape_configs"][0]
    assert set(jobs[1]["params"]) == {"streams", "consumers"}
