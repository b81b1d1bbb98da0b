"""Stands in for the data source where headrace cannot be imported, and says so."""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark.sql.datasource import DataSource


def unavailable(error: Exception) -> Any:
    """A data source `nats` that cannot be used."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())

    class UnavailableSource(DataSource):
        def __init__(self, options: dict[str, str]) -> None:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise RuntimeError(
                f'format("nats") cannot be used: {sys.executable} cannot import headrace ({reason}); '
                "install headrace[spark] there"
            )

        @classmethod
        def name(cls) -> str:
            return "nats"

    return UnavailableSource
