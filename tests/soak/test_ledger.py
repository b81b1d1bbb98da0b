"""The checker notices what is wrong, and does not complain about what nobody can know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.soak.findings import Findings
from tests.soak.ledger import Ledger, Limits
from tests.soak.messages import Stored, identity_of, payload_of

EVERY: Callable[[str], bool] = lambda subject: True  # noqa: E731


def stored(seq: int, identity: str, subject: str = "S.a", size: int = 100) -> Stored:
    return Stored(seq, subject, b"", payload_of("S", identity, size))


@pytest.fixture
def ledger() -> Ledger:
    """m1 to m5 are acknowledged as 1 to 5, in the server's first life."""
    made = Ledger("S", Findings())
    for number in range(1, 6):
        made.send(f"m{number}", "S.a", 1)
        made.acknowledge(f"m{number}", number)
    return made


ALL = [stored(number, f"m{number}") for number in range(1, 6)]


def found(
    ledger: Ledger, messages: list[Stored], *, last: int = 5, life: int = 1, now: float = 0
) -> list[str]:
    ledger.check(messages, last, life, now, now)
    return [kind for kind, _ in ledger._findings.take()]


def test_what_was_acknowledged_and_is_stored_is_right(ledger: Ledger) -> None:
    assert found(ledger, ALL) == []
    assert ledger.checked == 5


def test_a_missing_message_is_lost_once(ledger: Ledger) -> None:
    assert found(ledger, ALL[:2] + ALL[3:]) == ["lost"]
    assert found(ledger, ALL[:2] + ALL[3:]) == []
    assert found(ledger, ALL) == ["resurrected"]


def test_an_end_that_is_cut_off_is_lost(ledger: Ledger) -> None:
    assert set(found(ledger, ALL[:4], last=4)) == {"lost"}


@pytest.mark.parametrize(
    "wrong",
    [
        replace(ALL[2], payload=ALL[2].payload[:-1] + b"!"),
        replace(ALL[2], payload=ALL[2].payload[:-1]),
        replace(ALL[2], payload=payload_of("T", "m3", 100)),
        replace(ALL[2], payload=b""),
        replace(ALL[2], subject="S.b"),
    ],
)
def test_a_message_that_is_another_is_altered(ledger: Ledger, wrong: Stored) -> None:
    assert found(ledger, [*ALL[:2], wrong, *ALL[3:]]) == ["altered"]


def test_lost_headers_are_noticed(ledger: Ledger) -> None:
    ledger.send("m6", "S.a", 1, headed=True)
    ledger.acknowledge("m6", 6)
    assert found(ledger, [*ALL, stored(6, "m6")], last=6) == ["altered"]


def test_a_message_that_is_there_twice_is_doubled(ledger: Ledger) -> None:
    assert found(ledger, [*ALL, stored(6, "m3")], last=6) == ["doubled"]


def test_a_sequence_that_is_given_twice_is_doubled(ledger: Ledger) -> None:
    ledger.send("m6", "S.a", 1)
    ledger.acknowledge("m6", 5)
    assert [kind for kind, _ in ledger._findings.take()] == ["doubled"]


def test_what_was_deleted_must_stay_away(ledger: Ledger) -> None:
    ledger.may_go(["m3"], 1)
    ledger.has_gone(["m3"])
    assert found(ledger, ALL[:2] + ALL[3:]) == []
    assert found(ledger, ALL) == ["resurrected"]


def test_a_purge_without_an_answer_may_have_happened_or_not(ledger: Ledger) -> None:
    ledger.may_go(["m1", "m2"], 1)
    ledger.leave_open(1)
    assert found(ledger, ALL[1:]) == []
    # m1 is gone, and must stay so. m2 may still go in this life, and not in the next one.
    assert found(ledger, ALL) == ["resurrected"]
    assert found(ledger, ALL[1:], life=2) == []
    assert found(ledger, ALL[2:], life=2) == ["lost"]


def test_a_purge_takes_what_is_sent_meanwhile_or_does_not(ledger: Ledger) -> None:
    with ledger.removal(EVERY, 1):
        ledger.send("m6", "S.a", 1)
        ledger.acknowledge("m6", 6)
    assert found(ledger, ALL, last=6) == []
    assert found(ledger, [*ALL, stored(6, "m6")], last=6) == ["resurrected"]


def test_a_purge_that_was_answered_takes_nothing_later(ledger: Ledger) -> None:
    with ledger.removal(EVERY, 1):
        ledger.send("m6", "S.a", 1)
        ledger.acknowledge("m6", 6)
    assert found(ledger, [*ALL, stored(6, "m6")], last=6) == []
    assert found(ledger, ALL, last=6) == ["lost"]


def test_a_publish_without_an_answer_may_be_stored_or_not(ledger: Ledger) -> None:
    ledger.send("m6", "S.a", 1)
    ledger.send("m7", "S.a", 1)
    assert found(ledger, [*ALL, stored(6, "m7")], last=6) == []
    # m7 was seen, and must stay. m6 may still come in this life, and not in the next one.
    assert found(ledger, ALL, last=6) == ["lost"]
    assert found(ledger, ALL, last=6, life=2) == []
    assert found(ledger, [*ALL, stored(7, "m6")], last=7, life=2) == ["resurrected"]


def test_what_was_refused_must_not_be_stored(ledger: Ledger) -> None:
    ledger.send("m6", "S.a", 1)
    ledger.refuse("m6")
    assert found(ledger, [*ALL, stored(6, "m6")], last=6) == ["resurrected"]


def test_what_was_refused_at_the_second_attempt_may_be_stored_since_the_first(ledger: Ledger) -> None:
    ledger.send("m6", "S.a", 1)
    ledger.send("m6", "S.a", 1)
    ledger.refuse("m6")
    assert found(ledger, [*ALL, stored(6, "m6")], last=6) == []


def test_a_limit_takes_the_oldest_only() -> None:
    ledger = Ledger("S", Findings(), Limits(messages=3))
    for number in range(1, 6):
        ledger.send(f"m{number}", "S.a", 1)
        ledger.acknowledge(f"m{number}", number)
    assert found(ledger, ALL[2:]) == []
    assert found(ledger, ALL[3:]) == ["lost"]
    assert "resurrected" in found(ledger, [stored(number, f"m{number}") for number in (1, 2, 4, 5)])


def test_a_limit_per_subject_takes_the_oldest_of_its_subject() -> None:
    ledger = Ledger("S", Findings(), Limits(per_subject=1))
    for seq, subject in enumerate(("S.a", "S.b", "S.a"), 1):
        ledger.send(f"m{seq}", subject, 1)
        ledger.acknowledge(f"m{seq}", seq)
    assert found(ledger, [stored(2, "m2", "S.b"), stored(3, "m3")], last=3) == []
    assert found(ledger, [stored(3, "m3")], last=3) == ["lost"]


def test_a_message_expires_neither_too_early_nor_too_late() -> None:
    ledger = Ledger("S", Findings(), Limits(expiry_grace=5))
    for number in (1, 2):
        ledger.send(f"m{number}", "S.a", 1, now=100, lifetime=10)
        ledger.acknowledge(f"m{number}", number, 101)
    assert found(ledger, ALL[:2], last=2, now=115) == []
    assert found(ledger, ALL[:1], last=2, now=117) == ["resurrected"]
    ledger.send("m3", "S.a", 1, now=200, lifetime=10)
    ledger.acknowledge("m3", 3, 201)
    assert found(ledger, [], last=3, now=205) == ["lost"]


def test_a_batch_is_whole_or_absent(ledger: Ledger) -> None:
    for number in (6, 7):
        ledger.send(f"m{number}", "S.a", 1, batch="b")
    assert found(ledger, [*ALL, stored(6, "m6")], last=6, life=2) == ["torn"]


def test_a_message_that_is_acknowledged_without_its_sequence_must_be_found(ledger: Ledger) -> None:
    for name in ("m6", "m7"):
        ledger.send(name, "S.a", 1)
        ledger.acknowledge_somewhere(name)
    assert found(ledger, [*ALL, stored(6, "m7")], last=6) == ["lost"]


def test_a_delivery_is_compared_with_what_was_sent(ledger: Ledger) -> None:
    assert ledger.recognise_delivery(stored(3, "m3")) == "m3"
    assert ledger._findings.take() == []
    ledger.recognise_delivery(stored(3, "m4"))
    assert [kind for kind, _ in ledger._findings.take()] == ["altered"]


@pytest.mark.parametrize("size", [0, 1, 50, 64, 1000, 70_000])
def test_a_payload_tells_which_message_it_is(size: int) -> None:
    payload = payload_of("S", "client-12", size)
    assert len(payload) >= size
    assert identity_of("S", b"", payload) == "client-12"
    assert identity_of("T", b"", payload) is None
    for place in {0, len(payload) // 2, len(payload) - 1}:
        assert identity_of("S", b"", payload[:place] + b"\0" + payload[place + 1 :]) is None
