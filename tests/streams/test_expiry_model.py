"""Ages, TTLs and markers against a model: any history, on a clock that the test moves."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.streams.expiry_model import NEVER
from tests.streams.expiry_pair import Config, Pair, run_pair

DURATIONS = st.sampled_from([0, 0, 1, 2, 5, 20])
SUBJECTS = st.sampled_from(["s.a", "s.b", "s.c"])
CONFIGS = st.builds(Config, DURATIONS, DURATIONS, st.booleans())
YEARS = 10**10
OPERATIONS = st.one_of(
    st.tuples(st.just("publish"), SUBJECTS, st.sampled_from([0, 0, NEVER, 1, 2, 3, 7, 30, YEARS])),
    st.tuples(st.just("publish"), SUBJECTS, st.sampled_from([0, NEVER, 1, 2, 3, 7, 30])),
    st.tuples(st.just("publish_kv_purge"), SUBJECTS, st.sampled_from([0, 1, 4])),
    st.tuples(
        st.just("roll_up"), SUBJECTS, st.sampled_from(["sub", "sub", "all"]), st.sampled_from([0, 1, 4])
    ),
    st.tuples(st.just("wait"), st.sampled_from([1, 1, 1, 2, 3, 10, 40])),
    st.tuples(st.just("wait"), st.sampled_from([1, 2])),
    st.tuples(st.just("delete"), st.integers(0, 20)),
    st.tuples(st.just("purge"), st.sampled_from(["s.a", "s.*", ""]), st.sampled_from([0, 0, 1])),
    st.tuples(st.just("restart"), st.sampled_from([0, 1, 5])),
    st.tuples(st.just("configure"), CONFIGS),
)
HISTORIES = st.lists(OPERATIONS, min_size=5, max_size=40)
LIMITS = st.sampled_from([-1, -1, 1, 2])


def check_history(storage: str, config: Config, max_per_subject: int, history: list[tuple[Any, ...]]) -> None:
    async def replay(pair: Pair) -> None:
        for operation in history:
            await pair.apply(*operation)

    with tempfile.TemporaryDirectory() as directory:
        run_pair(config, storage, directory, replay, max_per_subject)


@pytest.mark.parametrize("storage", ["memory", "file"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(config=CONFIGS, max_per_subject=LIMITS, history=HISTORIES)
@example(
    config=Config(max_age=2, marker_ttl=2, allow_ttl=True),
    max_per_subject=-1,
    history=[("publish", "s.a", 20), ("publish", "s.b", 0), ("wait", 3)],
)
def test_a_stream_keeps_what_the_model_keeps(
    storage: str, config: Config, max_per_subject: int, history: list[tuple[Any, ...]]
) -> None:
    check_history(storage, config, max_per_subject, history)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("storage", ["memory", "file"])
@settings(max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(config=CONFIGS, max_per_subject=LIMITS, history=HISTORIES)
def test_a_stream_keeps_what_the_model_keeps_for_long(
    storage: str, config: Config, max_per_subject: int, history: list[tuple[Any, ...]]
) -> None:
    check_history(storage, config, max_per_subject, history)
