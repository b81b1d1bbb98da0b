"""Messages expire from the head of the log on, up to the first one that is too young."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.store.log import Log
from tests.engine.store.logs import messages


@pytest.mark.parametrize("in_memory", [True, False])
@settings(max_examples=100, deadline=None)
@given(
    times=st.lists(st.integers(1, 20), max_size=60),
    deleted=st.sets(st.integers(1, 60)),
    oldest=st.integers(-(2**63), 25),
    most=st.sampled_from([1, 2, 7, 1000]),
)
def test_the_first_younger_message_ends_it(
    in_memory: bool, times: list[int], deleted: set[int], oldest: int, most: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = Log(None if in_memory else directory, segment_bytes=512)
        log.recover()
        for time in times:
            log.append(b"subject", b"", b"x" * 40, time)
        log.remove_many(deleted)
        log.commit()
        kept = [seq for seq in range(1, len(times) + 1) if seq not in deleted]
        while kept and times[kept[0] - 1] <= oldest:
            kept.pop(0)
        seq = log.expire(oldest, 0, most)
        while seq:
            seq = log.expire(oldest, seq, most)
        log.commit()
        assert list(messages(log)) == kept
        assert log.last_seq == len(times)
        log.close()


def test_an_empty_log_has_nothing_to_expire() -> None:
    log = Log()
    log.recover()
    assert log.expire(2**63 - 1, 0, 10) == 0
    log.skip(2**63)
    assert log.expire(2**63 - 1, 2**64 - 1, 10) == 0
