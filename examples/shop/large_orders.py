"""A step of shop.yml in Python: a function of DataFrames."""

from __future__ import annotations

from pyspark.sql import DataFrame

LARGE = 900.0


def keep_large(orders: DataFrame) -> DataFrame:
    return orders.where(orders.amount >= LARGE)
