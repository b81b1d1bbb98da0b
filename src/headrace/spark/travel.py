"""The source, its readers and its writers, which Spark sends to the workers: see `arrival`."""

from __future__ import annotations

from typing import Any

from pyspark import cloudpickle

from headrace import __version__
from headrace.spark import arrival

# What arrives is not looked up by name, because there may be nothing of that name.
cloudpickle.register_pickle_by_value(arrival)  # type: ignore[no-untyped-call]


class Traveller:
    """Arrives only where the same version of headrace is installed; one line says what is wrong elsewhere."""

    def __reduce__(self) -> tuple[Any, ...]:
        package = cloudpickle.dumps((type(self), self.__dict__))  # type: ignore[no-untyped-call]
        return arrival.arrive, (__version__, package)
