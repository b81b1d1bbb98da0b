"""Progress of queries as metrics for Prometheus: `http://127.0.0.1:PORT/metrics`.

The figures are those of the progress line, read at each scrape from what `follow` has collected. Names follow
the rules of Prometheus: base units, `_total` for what only grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import UsageError
from headrace.spark.failure import SparkError

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from headrace.spark.progress import Meter

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Figure:
    """One metric; a query without a value has no sample."""

    name: str
    help: str
    value: Callable[[Meter], float | None]
    only_grows: bool = False


FIGURES = (
    Figure("headrace_query_read_rows", "Rows read from streams.", lambda m: m.progress.rows_read, True),
    Figure("headrace_query_written_rows", "Rows written by the sink.", lambda m: m.progress.rows, True),
    Figure("headrace_query_dead_letters", "Rows that did not fit.", lambda m: m.progress.dead_letters, True),
    Figure("headrace_query_deletions", "Keys deleted.", lambda m: m.progress.deletions, True),
    Figure("headrace_query_restarts", "Restarts after a failure.", lambda m: m.restarts, True),
    Figure(
        "headrace_query_read_rows_per_second",
        "Rows per second of the last batch that had rows.",
        lambda m: m.progress.rows_per_second,
    ),
    Figure("headrace_query_lag_messages", "Messages that are still to be read.", lambda m: m.progress.lag),
    Figure(
        "headrace_query_batch_duration_seconds",
        "Duration of the last batch that had rows.",
        lambda m: m.progress.batch_seconds,
    ),
    Figure(
        "headrace_query_last_batch",
        "Number of the last completed batch.",
        lambda m: m.progress.batch if m.progress.batch >= 0 else None,
    ),
    Figure(
        "headrace_query_last_error_timestamp_seconds",
        "When the query failed last, in seconds since 1970.",
        lambda m: m.last_error_at or None,
    ),
)


class Metrics:
    """A collector for Prometheus's registry."""

    def __init__(self) -> None:
        self._meters: Mapping[str, Meter] = {}

    def show(self, meters: Mapping[str, Meter]) -> None:
        """Show the figures of these queries from now on."""
        self._meters = meters

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for figure in FIGURES:
            kind = CounterMetricFamily if figure.only_grows else GaugeMetricFamily
            family = kind(figure.name, figure.help, labels=["query"])
            for name, meter in self._meters.items():
                if (value := figure.value(meter)) is not None:
                    family.add_metric([name], value)
            yield family


@contextmanager
def serve_metrics(host: str, port: int) -> Iterator[tuple[Metrics, str]]:
    """A server in a background thread, and its URL; port 0 is a free one. Raises UsageError, SparkError."""
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise SparkError(
            "prometheus-client is not installed", hint="`pip install 'headrace[spark]'` installs it"
        ) from None
    metrics = Metrics()
    registry = CollectorRegistry()
    registry.register(metrics)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise UsageError(
            f"metrics cannot be served at {host}:{port}: {error.strerror or error}",
            hint="choose another port with --metrics-port",
        ) from None
    try:
        yield metrics, f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
