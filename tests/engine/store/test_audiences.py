"""Who asked for a subject, with few filters and with many, while readers come and go."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.basics.audiences import Audiences
from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from tests.engine.store.logs import watch

tokens = st.sampled_from(["a", "b", "c", "a*"])
subjects = st.lists(tokens, min_size=1, max_size=4).map(lambda some: ".".join(some).encode())
pattern_tokens = st.sampled_from(["a", "b", "c", "a*", "*"])
patterns = st.builds(
    lambda some, tail: ".".join([*some, *tail]).encode(),
    st.lists(pattern_tokens, min_size=1, max_size=3),
    st.sampled_from([[], [">"]]),
)
filters = st.lists(patterns | st.just(b">"), max_size=3).map(tuple)


@given(st.lists(filters, max_size=30), st.lists(subjects, min_size=1, max_size=10))
def test_those_whose_filter_passes_are_found_once(asked: list[tuple[bytes, ...]], seen: list[bytes]) -> None:
    readers: Audiences[int] = Audiences()
    for number, some in enumerate(asked):
        readers.enlist(number, Filter(some))
    for subject in seen:
        expected = [number for number, some in enumerate(asked) if Filter(some).matches(subject)]
        assert sorted(readers.who_asked_for(subject)) == expected


steps = st.one_of(
    st.tuples(st.just("watch"), filters, st.integers(0, 5)),
    st.tuples(st.just("leave"), st.integers(0, 100)),
    st.tuples(st.just("append"), st.lists(subjects, min_size=1, max_size=5)),
    st.tuples(st.just("remove"), st.integers(0, 100)),
    st.tuples(st.just("drop"), st.integers(0, 100)),
)


@given(st.lists(filters, min_size=9, max_size=25), st.lists(steps, max_size=30))
def test_what_is_pending_is_exact_however_many_watch(
    first: list[tuple[bytes, ...]], day: list[tuple[Any, ...]]
) -> None:
    log = Log(None)
    log.recover()
    live: dict[int, bytes] = {}
    watchers = [watch(log, 0, *some) for some in first]
    for name, *arguments in day:
        if name == "watch":
            some, ahead = arguments
            watchers.append(watch(log, log.last_seq + 1 + ahead, *some))
        elif name == "leave" and watchers:
            log.remove_watcher(watchers.pop(arguments[0] % len(watchers)))
        elif name == "append":
            for subject in arguments[0]:
                live[log.append(subject, b"", b"", 0)] = subject
        elif name == "remove" and live:
            seq = sorted(live)[arguments[0] % len(live)]
            assert log.remove(seq)
            del live[seq]
        elif name == "drop" and live:
            seq = sorted(live)[arguments[0] % len(live)]
            log.compact(seq)
            live = {one: subject for one, subject in live.items() if one >= seq}
        log.commit()
        for watcher in watchers:
            passed = (seq >= watcher.next_seq and watcher.filter.matches(live[seq]) for seq in live)
            assert watcher.num_pending == sum(passed), (watcher.filter, watcher.next_seq)
