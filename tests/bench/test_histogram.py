"""The histogram: exact counts, values within 1/128, slices by time; its percentiles against numpy."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bench.distribution import Distribution, distributions
from headrace.bench.histogram import Histogram

PERCENTS = [0.1, 1, 25, 50, 90, 99, 99.9, 99.99, 100]
SAMPLES = {
    "lognormal": lambda random: random.lognormal(11, 1.5, 50_000),
    "uniform": lambda random: random.uniform(1, 1e7, 50_000),
    "two humps": lambda random: numpy.concatenate(
        [random.normal(80_000, 9_000, 40_000), random.normal(9e7, 2e6, 400)]
    ),
    "small numbers": lambda random: random.integers(1, 300, 5_000),
    "a single value": lambda random: numpy.array([123_456]),
}


def filled(values: "numpy.ndarray[tuple[int], numpy.dtype[numpy.int64]]") -> Histogram:
    histogram = Histogram()
    for value in values.tolist():
        histogram.add(0, value)
    return histogram


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", SAMPLES)
def test_percentiles_agree_with_numpy(name: str, seed: int) -> None:
    values = numpy.maximum(SAMPLES[name](numpy.random.default_rng(seed)), 1).astype(numpy.int64)
    whole, _ = distributions(filled(values), 1.0)
    assert whole.count == len(values)
    assert whole.max_us == values.max() / 1000
    for percent in PERCENTS:
        expected = numpy.percentile(values, percent, method="inverted_cdf") / 1000
        assert whole.percentile(percent) == pytest.approx(expected, rel=1 / 128), percent


@given(st.integers(0, 2**41 - 1))
def test_a_bucket_is_never_wider_than_a_128th_of_its_values(value: int) -> None:
    histogram = Histogram()
    histogram.add(0, value)
    ((bound, count),) = histogram.buckets(0)
    assert count == 1
    assert value <= bound <= value + value / 128


@pytest.mark.parametrize("value", [2**41, 2**62])
def test_what_is_longer_than_the_longest_bucket_is_counted_in_it(value: int) -> None:
    histogram = Histogram()
    histogram.add(0, value)
    assert [count for _, count in histogram.buckets(0)] == [1]
    assert histogram.highest(0) == value


def test_a_negative_duration_counts_as_none() -> None:
    histogram = Histogram()
    histogram.add(0, -5)
    assert histogram.buckets(0) == [(0, 1)]


def test_slices_are_by_time_and_the_last_takes_the_rest() -> None:
    histogram = Histogram(0.5, 3)
    for offset, value in [(0, 10), (499_999_999, 20), (500_000_000, 30), (9_000_000_000, 40), (-1, 50)]:
        histogram.add(offset, value)
    assert histogram.used() == [0, 1, 2]
    assert [histogram.buckets(number) for number in range(3)] == [
        [(10, 1), (20, 1), (50, 1)],
        [(30, 1)],
        [(40, 1)],
    ]
    assert [histogram.highest(number) for number in range(3)] == [50, 30, 40]


def test_slices_start_where_they_start_and_end_with_the_run() -> None:
    histogram = Histogram(1.0, 4)
    for second in (0, 2, 3):
        histogram.add(second * 1_000_000_000, 1000)
    whole, slices = distributions(histogram, 3.25, 100.0)
    assert whole.count == 3
    assert [(part.number, part.start_seconds, part.seconds, part.rate_wanted) for part in slices] == [
        (0, 0.0, 1.0, 100.0),
        (2, 2.0, 1.0, 100.0),
        (3, 3.0, 0.25, 100.0),
    ]


def test_percentiles_by_hand() -> None:
    ten = Distribution(tuple(float(value) for value in range(1, 11)), (1,) * 10, 10.0)
    assert [ten.percentile(percent) for percent in (0, 10, 10.1, 50, 90, 99, 100)] == [1, 1, 2, 5, 9, 10, 10]
    assert ten.percentiles() == {"p50": 5, "p90": 9, "p99": 10, "p99.9": 10, "p99.99": 10, "max": 10}


def test_no_values_have_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        Distribution((), (), 0.0).percentile(50)


@pytest.mark.parametrize(("seconds", "slices"), [(0, 1), (-1, 1), (1, 0)])
def test_a_histogram_needs_a_slice(seconds: float, slices: int) -> None:
    with pytest.raises(ValueError, match="at least one slice"):
        Histogram(seconds, slices)


@pytest.mark.parametrize("number", [-1, 2])
def test_only_slices_that_exist_can_be_read(number: int) -> None:
    with pytest.raises(IndexError):
        Histogram(1.0, 2).buckets(number)
    with pytest.raises(IndexError):
        Histogram(1.0, 2).highest(number)
