"""The engine's verdicts are those of the model, for every subject and queue."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.permissions import rules
from tests.permissions.model import Permissions, is_valid_subscription, rule_matches

LONG_CASES = 1_000_000


def compare(model: Permissions) -> int:
    """Returns how many cases there were."""
    engine = rules.compiled(model)
    cases = 0
    for subject in rules.SUBJECTS:
        for _ in range(2):  # once worked out, once remembered
            assert engine.may_publish(subject.encode()) == model.may_publish(subject), subject
        cases += 1
        for queue in rules.QUEUES:
            given_queue = queue.encode() if queue else None
            may_subscribe = model.may_subscribe(subject, queue)
            assert engine.may_subscribe(subject.encode(), given_queue) == may_subscribe, (subject, queue)
            cases += 1
            if may_subscribe and is_valid_subscription(subject):
                cases += _compare_deliveries(model, subject, queue)
    return cases


def _compare_deliveries(model: Permissions, subject: str, queue: str | None) -> int:
    engine = rules.compiled(model)
    for published in rules.LITERAL_SUBJECTS:
        if rule_matches(subject, published):  # a filter is asked about nothing else
            expected = model.may_receive(subject, queue, published, strictly=True)
            asked = subject.encode(), queue.encode() if queue else None, published.encode()
            assert engine.may_deliver(*asked) == expected, asked
    return len(rules.LITERAL_SUBJECTS)


@given(rules.permissions)
@settings(max_examples=30)
def test_the_engine_decides_as_the_model(model: Permissions) -> None:
    compare(model)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_engine_decides_a_million_cases_as_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    total = 0

    @given(rules.permissions)
    @settings(max_examples=2000)
    def compare_one(model: Permissions) -> None:
        nonlocal total
        total += compare(model)

    compare_one()
    with capsys.disabled():
        print(f"\n{total:,} verdicts compared with the model, 0 differences")
    assert total >= LONG_CASES
