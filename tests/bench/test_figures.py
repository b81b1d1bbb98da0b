"""The arithmetic against values computed by hand."""

import pytest

from headrace.bench.figures import percentile, share_evenly, summarize


@pytest.mark.parametrize(
    ("values", "median", "lowest", "highest"),
    [([5.0], 5, 5, 5), ([3.0, 1.0, 2.0], 2, 1, 3), ([4.0, 1.0, 2.0, 9.0], 3, 1, 9)],
)
def test_a_summary_is_median_and_extremes(
    values: list[float], median: float, lowest: float, highest: float
) -> None:
    summary = summarize(values)
    assert (summary.median, summary.lowest, summary.highest) == (median, lowest, highest)


def test_spread_is_a_share_of_the_median() -> None:
    assert summarize([8.0, 10.0, 13.0]).spread == 0.5


@pytest.mark.parametrize(
    ("total", "clients", "shares"),
    [
        (10, 3, [4, 3, 3]),
        (9, 3, [3, 3, 3]),
        (2, 4, [1, 1, 0, 0]),
        (0, 2, [0, 0]),
        (1_000_001, 2, [500_001, 500_000]),
    ],
)
def test_messages_are_divided_as_evenly_as_possible(total: int, clients: int, shares: list[int]) -> None:
    assert share_evenly(total, clients) == shares


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 10), (25, 20), (50, 30), (90, 46), (99, 49.6), (100, 50)]
)
def test_percentiles_are_interpolated(percent: float, expected: float) -> None:
    assert percentile([10, 20, 30, 40, 50], percent) == pytest.approx(expected)


def test_no_values_have_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
