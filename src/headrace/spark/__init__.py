"""Spark: streams as tables, tables as messages, and the session that runs them.

ARCHITECTURE.md has a reading order. PySpark is an extra, so nothing here imports it before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.spark.live import landed_table, live_table
    from headrace.spark.source import NatsDataSource

__all__ = ["NatsDataSource", "landed_table", "live_table"]


def __getattr__(name: str) -> Any:
    if name == "NatsDataSource":
        from headrace.spark.source import NatsDataSource

        return NatsDataSource
    if name in ("landed_table", "live_table"):
        from headrace.spark import live

        return getattr(live, name)
    raise AttributeError(name)
