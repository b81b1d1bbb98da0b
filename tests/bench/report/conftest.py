"""The known runs, and what the report computes from them once for all files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.bench.report.content import Content
from headrace.bench.report.samples import find_runs
from headrace.bench.report.write import compute_report
from tests.bench.report.runs import save_known_runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("saved [runs] {1} 100%")
    save_known_runs(directory)
    return directory


@pytest.fixture(scope="session")
def content(spark: SparkSession, saved: Path) -> Content:
    return compute_report(spark, find_runs(saved))


@pytest.fixture(scope="session")
def all_machines(spark: SparkSession, saved: Path) -> Content:
    return compute_report(spark, find_runs(saved), compare_machines=True)
