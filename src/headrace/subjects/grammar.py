"""What a subject is, and how subjects relate: valid, literal, matches, overlaps, is a subset.

A subject is a list of tokens between dots. A token `*` stands for exactly one token, a last token `>` for
one or more. Anything else is literal, so `foo*` is a plain word. Names and corner cases follow nats-server: a
wildcard is looked for at the start of a token in `overlap` and on the right side of `is_subset`, and streams
are refused or taken by these very answers, so they are kept.

Subjects are str here, because they come from configurations and requests. A subject from the wire is bytes
and may be no valid UTF-8: `decode` and `encode` convert without loss.
"""

PARTIAL_WILDCARD = "*"
FULL_WILDCARD = ">"
SEPARATOR = "."
_WHITESPACE = frozenset("\t\n\f\r ")


def decode(subject: bytes) -> str:
    """The subject as str; bytes that are no UTF-8 come back as they were from `encode`."""
    return subject.decode("utf-8", "surrogateescape")


def encode(subject: str) -> bytes:
    return subject.encode("utf-8", "surrogateescape")


def is_valid_subject(subject: str) -> bool:
    """No empty token, no whitespace, and `>` only at the end. Wildcards are allowed."""
    *heads, last = subject.split(SEPARATOR)
    if not last or FULL_WILDCARD in heads or "" in heads:
        return False
    return _WHITESPACE.isdisjoint(subject)


def is_valid_literal(subject: str) -> bool:
    """No empty token and no wildcard. Whitespace is not looked for: the wire carries none in subjects."""
    tokens = subject.split(SEPARATOR)
    return not ("" in tokens or PARTIAL_WILDCARD in tokens or FULL_WILDCARD in tokens)


def is_valid_publish_subject(subject: str) -> bool:
    """A valid subject without wildcards."""
    return is_valid_subject(subject) and not has_wildcard(subject)


def has_wildcard(subject: str) -> bool:
    tokens = subject.split(SEPARATOR)
    return PARTIAL_WILDCARD in tokens or FULL_WILDCARD in tokens


def matches(subject: str, pattern: str) -> bool:
    """Whether a literal subject is one of those that the pattern stands for."""
    return subject == pattern or is_subset(subject, pattern)


def is_subset(subject: str, of: str) -> bool:
    """Whether every subject that the first stands for is matched by the second."""
    return is_subset_of_tokens(subject.split(SEPARATOR), of.split(SEPARATOR))


def is_subset_of_tokens(tokens: list[str], of: list[str]) -> bool:
    for place, wanted in enumerate(of):
        if place >= len(tokens) or not wanted:
            return False
        if wanted == FULL_WILDCARD:
            return True
        token = tokens[place]
        if not token or token == FULL_WILDCARD:
            return False
        if token == PARTIAL_WILDCARD:
            if wanted != PARTIAL_WILDCARD:
                return False
        elif wanted[0] != PARTIAL_WILDCARD and token != wanted:
            return False
    return len(tokens) == len(of)


def overlap(first: str, second: str) -> bool:
    """Whether one literal subject can match both."""
    if first == second:
        return True
    left, right = first.split(SEPARATOR), second.split(SEPARATOR)
    left_wild, right_wild = has_wildcard(first), has_wildcard(second)
    if not left_wild and not right_wild:
        return False
    if not left_wild:
        return is_subset_of_tokens(left, right)
    if not right_wild:
        return is_subset_of_tokens(right, left)
    if len(left) != len(right):
        shorter = left if len(left) < len(right) else right
        if FULL_WILDCARD not in shorter:
            return False
    return all(_tokens_can_match(one, other) for one, other in zip(left, right, strict=False))


def _tokens_can_match(one: str, other: str) -> bool:
    if not one or not other:
        return False
    return one[0] in "*>" or other[0] in "*>" or one == other
