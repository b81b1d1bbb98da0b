"""The two text formats, as prometheus_client writes them.

It writes the head of every family, and histograms. Lines of streams and consumers are written in page.py: the
library takes 8 microseconds for each, and does not stop before it is through with a family, where a page may
have 40,000 lines; there it is 0.4 microseconds and a thousand lines at a time.

Importing the library takes 50 ms, so this module is imported when the first page is asked for (endpoint.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import exposition as plain
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.utils import floatToGoString

from headrace.monitor.metrics.families import Family

OPENMETRICS_END = b"# EOF\n"


class _Collected:
    """A registry of one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> list[Metric]:
        return [self._metric]


class Exposition:
    def __init__(self, content_type: str, write: Callable[..., bytes], end: bytes = b"") -> None:
        self.content_type = content_type
        self.end = end
        """The last line of a page."""
        self._write = write
        self._heads: dict[Family, bytes] = {}

    def head(self, family: Family) -> bytes:
        """What comes before its values."""
        if family not in self._heads:
            metric = Metric(family.name, family.help, family.kind, family.unit)
            self._heads[family] = self._encode(metric)
        return self._heads[family]

    def histogram(
        self, family: Family, bounds: Sequence[float], counts: Sequence[int], total: float
    ) -> bytes:
        """`counts` are those of each bucket alone, with one more than there are bounds."""
        reached, buckets = 0, []
        for bound, count in zip([*bounds, float("inf")], counts, strict=True):
            reached += count
            buckets.append((_go(bound), reached))
        return self._encode(HistogramMetricFamily(family.name, family.help, buckets, total, unit=family.unit))

    def _encode(self, metric: Metric) -> bytes:
        return self._write(_Collected(metric)).removesuffix(self.end)


def _go(number: float) -> str:
    return str(floatToGoString(number))  # type: ignore[no-untyped-call]


PLAIN = Exposition("text/plain; version=0.0.4; charset=utf-8", plain.generate_latest)
OPENMETRICS = Exposition(openmetrics.CONTENT_TYPE_LATEST, openmetrics.generate_latest, OPENMETRICS_END)


def choose_exposition(accept: str) -> Exposition:
    """OpenMetrics for whoever accepts it at least as gladly as plain text."""
    gladly = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for wanted in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in wanted.split(";"))
        if kind in gladly:
            gladly[kind] = max(gladly[kind], _weight(parameters))
    preferred = gladly["application/openmetrics-text"]
    return OPENMETRICS if preferred and preferred >= gladly["text/plain"] else PLAIN


def _weight(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0
