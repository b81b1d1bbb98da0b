"""From saved runs to the two files: the one function that the command calls."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.bench.failure import BenchError
from headrace.bench.report.content import Content, compute
from headrace.bench.report.markdown import markdown
from headrace.bench.report.page import html
from headrace.bench.report.samples import SavedRuns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE_NAME = "report.html"
TABLE_NAME = "report.md"


def compute_report(spark: SparkSession, saved: SavedRuns, *, compare_machines: bool = False) -> Content:
    """Compute everything with Spark. Raises BenchError with one line if that fails."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return compute(spark, saved, compare_machines=compare_machines)
    except (PySparkException, Py4JError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise BenchError(
            f"Spark could not read the runs: {lines[0] if lines else type(error).__name__}"
        ) from error


def write_report(content: Content, directory: Path) -> list[Path]:
    """Write page and table into a directory, which is created if necessary, and return their paths."""
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in ((PAGE_NAME, html(content)), (TABLE_NAME, markdown(content))):
            _replace(directory / name, text)
            written.append(directory / name)
    except OSError as error:
        raise BenchError(f"cannot write the report to {directory}: {error.strerror}") from None
    return written


def _replace(path: Path, text: str) -> None:
    """Written with a rename, so that a browser that reloads never sees half a page."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
