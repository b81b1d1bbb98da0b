"""Random rules, and every subject that is worth asking about.

With two literal tokens, both wildcards and at most three tokens, all subjects can be tried against each set
of rules, so that a case is not missed by chance.
"""

from __future__ import annotations

from itertools import product

from hypothesis import strategies as st

from headrace.config import identity
from headrace.engine.core.permissions import PermissionSet
from tests.permissions.model import Permissions, Responses, Rule

LITERALS = ("a", "b")
LONGEST = 3


def _subjects(tokens: tuple[str, ...]) -> list[str]:
    return [".".join(chosen) for length in range(1, LONGEST + 1) for chosen in product(tokens, repeat=length)]


LITERAL_SUBJECTS = _subjects(LITERALS)
ODD_SUBJECTS = ["a..b", ".a", "a.", "a*", "b.>>", "*a.b"]
SUBJECTS = _subjects((*LITERALS, "*", ">")) + ODD_SUBJECTS
QUEUES: list[str | None] = [None, "q", "v.x", "v", "*", "v.*", "v.>"]

_RULES = [subject for subject in _subjects((*LITERALS, "*", ">")) if ">" not in subject.split(".")[:-1]]
subjects = st.sampled_from(_RULES)
queues = st.sampled_from(["q", "v.x", "v.*", "v.>", "*", ">"])
queue_rules: st.SearchStrategy[Rule] = st.tuples(subjects, st.none() | queues)
responses = st.builds(Responses, st.sampled_from([1, 2, 3, -1]), st.sampled_from([False, False, True]))


def _some(rules: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(rules, max_size=5).map(tuple)


permissions = st.builds(
    Permissions,
    publish_allow=_some(subjects),
    publish_deny=_some(subjects),
    subscribe_allow=_some(queue_rules),
    subscribe_deny=_some(queue_rules),
    responses=st.none() | responses,
)


def compiled(model: Permissions) -> PermissionSet:
    """The same rules for the engine."""

    def encode(rules: tuple[Rule, ...]) -> list[tuple[bytes, bytes | None]]:
        return [(subject.encode(), queue.encode() if queue else None) for subject, queue in rules]

    allow = [subject.encode() for subject in model.publish_allow]
    return PermissionSet(
        publish_allow=allow or (None if model.responses is None else ()),
        publish_deny=[subject.encode() for subject in model.publish_deny],
        subscribe_allow=encode(model.subscribe_allow),
        subscribe_deny=encode(model.subscribe_deny),
        max_responses=model.responses.max_messages if model.responses else 0,
        response_seconds=identity.DEFAULT_RESPONSE_SECONDS,
    )


def configured(model: Permissions) -> str:
    """The same rules in a configuration file."""

    def write(rules: tuple[str, ...]) -> str:
        return "[" + ", ".join(f'"{rule}"' for rule in rules) + "]"

    def join(rules: tuple[Rule, ...]) -> tuple[str, ...]:
        return tuple(f"{subject} {queue}" if queue else subject for subject, queue in rules)

    text = f"publish: {{ allow: {write(model.publish_allow)}, deny: {write(model.publish_deny)} }}"
    allow, deny = write(join(model.subscribe_allow)), write(join(model.subscribe_deny))
    text += f", subscribe: {{ allow: {allow}, deny: {deny} }}"
    if model.responses:
        expires = "1ns" if model.responses.is_over_at_once else "-1s"
        text += f', allow_responses: {{ max: {model.responses.max_messages}, expires: "{expires}" }}'
    return f"{{ {text} }}"
