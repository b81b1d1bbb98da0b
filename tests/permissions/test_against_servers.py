"""The model, headrace and nats-server agree: random rules, every subject, queues, wildcards, replies.

Each user of a configuration has rules of its own, so that one start of a server is enough for many of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headrace.go_formats import quote
from tests.permissions import rules
from tests.permissions.asking import (
    ADMIN,
    SUBSCRIPTIONS,
    Findings,
    Peer,
    ask_about_everything,
    configuration,
    errors,
)
from tests.permissions.model import Answering, Permissions, is_valid_subscription, rule_matches
from tests.servers import Server, ServerKind, running_server

LONG_CASES = 100_000
NO_SHRINKING = (Phase.explicit, Phase.generate)  # every example starts two servers
REPLIES = ("r.1", "r.2", "a.b")


def expected_findings(model: Permissions, *, strictly: bool) -> Findings:
    deliveries: Counter[tuple[str, str]] = Counter()
    subscribe_errors = []
    for subject, queue in SUBSCRIPTIONS:
        if not model.may_subscribe(subject, queue):
            named = f" using queue {quote(queue)}" if queue else ""
            text = f"'Permissions Violation for Subscription to {quote(subject)}{named}'"
            subscribe_errors.append(text.encode())
        elif not is_valid_subscription(subject):
            subscribe_errors.append(b"'Invalid Subject'")
        else:
            for published in rules.LITERAL_SUBJECTS:
                if model.may_receive(subject, queue, published, strictly=strictly):
                    place = (published, f"queue {queue}" if queue else subject)
                    deliveries[place] = 1  # one member of a queue group
    publish_errors = [
        f"'Permissions Violation for Publish to {quote(subject)}'".encode()
        for subject in rules.SUBJECTS
        if not model.may_publish(subject)
    ]
    return Findings(publish_errors, subscribe_errors, deliveries)


def compare(server: Server, users: list[Permissions]) -> int:
    """Returns how many verdicts and deliveries were compared."""
    admin = Peer(server, ADMIN)
    cases = 0
    for number, model in enumerate(users):
        expected = expected_findings(model, strictly=server.kind == "headrace")
        assert ask_about_everything(server, admin, number) == expected, model
        accepted = len(SUBSCRIPTIONS) - len(expected.subscribe_errors)
        cases += len(rules.SUBJECTS) + len(SUBSCRIPTIONS) + accepted * len(rules.LITERAL_SUBJECTS)
    admin.close()
    return cases


Script = list[tuple[str, str]]
"""("ask", reply subject) of a request that the user gets, and ("answer", subject) that it publishes."""
scripts = st.lists(
    st.tuples(st.sampled_from(["ask", "answer", "answer"]), st.sampled_from(REPLIES)), max_size=12
)
answering = st.tuples(
    st.builds(
        Permissions,
        publish_allow=st.sampled_from([(), ("a.*",), ("r.1",)]),
        publish_deny=st.sampled_from([(), (">",), ("r.2",), ("a.b",)]),
        responses=rules.responses,
    ),
    scripts,
)


def compare_answers(server: Server, plays: list[tuple[Permissions, Script]]) -> int:
    admin = Peer(server, ADMIN)
    cases = 0
    for number, (model, script) in enumerate(plays):
        peer = Peer(server, f"u{number}")
        peer.ask(b"SUB service 1\r\n")
        state = Answering(model)
        for action, subject in script:
            if action == "ask":
                admin.ask(f"PUB service {subject} 0\r\n\r\n".encode())
                assert [frame.reply for frame in peer.ask() if frame.operation == "MSG"] == [subject.encode()]
                state.got(subject)
            else:
                refused = bool(errors(peer.ask(f"PUB {subject} 0\r\n\r\n".encode())))
                assert refused != state.may_publish(subject), (model, script)
                cases += 1
        peer.close()
    admin.close()
    return cases


def on_both_servers(text: str, check: Callable[[Server], int]) -> int:
    kinds: tuple[ServerKind, ...] = ("nats-server", "headrace")
    cases = 0
    with ExitStack() as stack:
        for kind in kinds:
            cases = check(stack.enter_context(running_server(kind, text)))
    return cases


def run(users: int, examples: int) -> int:
    total = 0

    @given(st.lists(rules.permissions, min_size=users, max_size=users))
    @settings(max_examples=examples, phases=NO_SHRINKING)
    def decide(models: list[Permissions]) -> None:
        nonlocal total
        total += on_both_servers(configuration(models), lambda server: compare(server, models))

    decide()
    return total


def run_answers(users: int, examples: int) -> int:
    total = 0

    @given(st.lists(answering, min_size=users, max_size=users))
    @settings(max_examples=examples, phases=NO_SHRINKING)
    def answer(plays: list[tuple[Permissions, Script]]) -> None:
        nonlocal total
        text = configuration(model for model, _ in plays)
        total += on_both_servers(text, lambda server: compare_answers(server, plays))

    answer()
    return total


def test_both_servers_decide_as_the_model() -> None:
    run(users=6, examples=2)  # the first example of hypothesis is an empty one


def test_both_servers_count_responses_as_the_model() -> None:
    run_answers(users=10, examples=2)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_both_servers_decide_very_many_cases_as_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    cases = run(users=40, examples=10)
    answers = run_answers(users=100, examples=10)
    with capsys.disabled():
        print(f"\n{cases:,} verdicts and {answers:,} responses compared on both servers, 0 differences")
    assert cases >= LONG_CASES


@pytest.mark.parametrize(
    ("kind", "delivered"), [("nats-server", [b"foo.a", b"foo.a.b"]), ("headrace", [b"foo.a"])]
)
def test_who_may_subscribe_to_one_token_gets_no_more(kind: ServerKind, delivered: list[bytes]) -> None:
    """Both servers accept the subscription, but only nats-server delivers what the rule does not match."""
    model = Permissions(subscribe_allow=(("foo.*", None),))
    with running_server(kind, configuration([model])) as server:
        peer, admin = Peer(server, "u0"), Peer(server, ADMIN)
        assert errors(peer.ask(b"SUB foo.> 1\r\n")) == []
        admin.ask(b"PUB foo.a 0\r\n\r\nPUB foo.a.b 0\r\n\r\n")
        assert [frame.subject for frame in peer.ask() if frame.operation == "MSG"] == delivered
        peer.close()
        admin.close()


@given(rules.permissions)
@settings(max_examples=30)
def test_more_than_is_allowed_is_delivered_only_by_nats_server_and_only_to_one_kind(
    model: Permissions,
) -> None:
    """The documented difference: the last token `>` of a subscription, which a `*` of a rule has let in."""
    for subject, queue in SUBSCRIPTIONS:
        if not model.may_subscribe(subject, queue) or not is_valid_subscription(subject):
            continue
        for published in rules.LITERAL_SUBJECTS:
            lenient = model.may_receive(subject, queue, published, strictly=False)
            if lenient != model.may_receive(subject, queue, published, strictly=True):
                assert subject.endswith(">")
                assert not any(
                    rule_matches(rule, published) for rule, name in model.subscribe_allow if not name
                )
